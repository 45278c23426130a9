"""One name, one thing: no two classes share a name, unless they are one idea in two layers."""

import ast
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from pilotage import client

from .modules import modules

SOURCE = Path(__file__).parents[2] / "src" / "pilotage"

WIRE = {
    "AttemptLogs",
    "Enrolment",
    "FileRequest",
    "Log",
    "Offer",
    "Output",
    "Reason",
    "Report",
    "Reports",
    "SealedManifest",
    "StorageFault",
}
"""Documents between pilot and server, one idea in two layers: the agent, one file that imports nothing of the
house, makes them as plain records, and the server checks them with its own stricter types."""


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for name in re.findall(r"^ *class (\w+)[(:\[]", path.read_text(), re.MULTILINE):
            # What users of the Python client import is named for them, such as Task and Job.
            if not (name in client.__all__ and path.is_relative_to(SOURCE / "client")):
                places[name].add(str(path.relative_to(SOURCE)))
    assert len(places) > 500
    twins = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    assert {name: files for name, files in twins.items() if name not in WIRE} == {}
    # An exception that excepts nothing, or something between other layers, is no exception.
    assert set(twins) == WIRE
    assert all(any(file.startswith("agent/") for file in files) for files in twins.values())
    assert all(len(files) == 2 for files in twins.values())


def _is_text(one: ast.stmt) -> bool:
    return (
        isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)
    )


def test_no_constant_that_moved_left_its_description_behind() -> None:
    """It would stand below that of the constant before."""
    found = [
        f"{path}:{second.lineno}"
        for path, module in modules().items()
        for first, second in pairwise(module.tree.body)
        if _is_text(first) and _is_text(second)
    ]
    assert found == []


def test_types_of_a_task_s_fields_stand_by_their_own_descriptions() -> None:
    body = modules()["model/records/spec.py"].tree.body
    described = {
        first.targets[0].id: ast.unparse(second)
        for first, second in pairwise(body)
        if isinstance(first, ast.Assign) and isinstance(first.targets[0], ast.Name) and _is_text(second)
    }
    assert "How firmly a job is bound" in described["Binding"]
    assert "environment module" in described["ModuleName"]
