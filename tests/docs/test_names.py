"""One name, one thing: no two classes share a name, unless they are one idea in two layers."""

import re
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pilotage"

WIRE = {
    "AttemptLogs",
    "Enrolment",
    "FileRequest",
    "Log",
    "Node",
    "Offer",
    "Output",
    "Reason",
    "Report",
    "Reports",
    "StorageFault",
}
"""Documents between pilot and server, one idea in two layers: the agent, one file that imports nothing of the
house, makes them as plain records, and the server checks them with its own stricter types."""


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for name in re.findall(r"^ *class (\w+)[(:\[]", path.read_text(), re.MULTILINE):
            places[name].add(str(path.relative_to(SOURCE)))
    assert len(places) > 500
    twins = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    assert {name: files for name, files in twins.items() if name not in WIRE} == {}
    # An exception that excepts nothing, or something between other layers, is no exception.
    assert set(twins) == WIRE
    assert all(any(file.startswith("agent/") for file in files) for files in twins.values())
    assert all(len(files) == 2 for files in twins.values())
