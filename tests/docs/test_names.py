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
"""Documents between pilot and server: the agent, which imports nothing of the house, has its own records."""

PILOT = {"Pilot"}
"""A pilot itself, which the agent is, and its record at the server."""


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for name in re.findall(r"^ *class (\w+)[(:\[]", path.read_text(), re.MULTILINE):
            places[name].add(str(path.relative_to(SOURCE)))
    assert len(places) > 500
    twins = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    assert {name: files for name, files in twins.items() if name not in WIRE | PILOT} == {}
    # An exception that excepts nothing, or something between other layers, is no exception.
    assert set(twins) == WIRE | PILOT
    assert all(any(file.startswith("agent/") for file in files) for files in twins.values())
    assert all(len(files) == 2 for files in twins.values())
