"""Places that a task chooses for its outputs, and folders that it mounts: what is refused, and why."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from pilotage.federation.destination_checks import place_faults
from pilotage.federation.task_checks import task_faults
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.spec_parts import OutputDestination
from pilotage.model.rules.destinations import destination_of_output
from pilotage.model.values.identity import Identity
from pilotage.model.values.types import MountFolder
from pilotage.testing import federation, queue

ALICE = Identity(name="alice", vo="atlas")


def spec(**fields: Any) -> TaskSpec:
    values = {"name": "t", "command": ("true",), "outputs": ("a", "logs/*.txt", "plots/"), **fields}
    return TaskSpec(**values)


def at(path: str, prefix: str = "", store: str = "HOME-DISK") -> OutputDestination:
    return OutputDestination(storage=store, path=path, prefix=prefix)


def messages(spec: TaskSpec) -> dict[str, str]:
    return {".".join(map(str, fault.path)): fault.text for fault in task_faults(spec)}


def test_the_first_output_that_matches_decides_where_a_file_goes() -> None:
    places = {
        "a": at("work/renamed"),
        "logs/*.txt": at("work/l", "logs"),
        "plots/": at("work/p", "plots"),
        "**": at("rest"),
    }
    assert destination_of_output(places, "a") == ("HOME-DISK", "work/renamed")
    assert destination_of_output(places, "logs/x.txt") == ("HOME-DISK", "work/l/x.txt")
    assert destination_of_output(places, "plots/deep/x.png") == ("HOME-DISK", "work/p/deep/x.png")
    assert destination_of_output(places, "other/x") == ("HOME-DISK", "rest/other/x")
    assert destination_of_output({"a": at("b")}, "c") is None


@pytest.mark.parametrize(
    ("fields", "place", "message"),
    [
        ({"destinations": {"b": at("x")}}, "destinations.b", "is not in outputs"),
        ({"destinations": {"a": at("tasks/x")}}, "destinations.a.path", "is below the folder of outputs"),
        ({"destinations": {"a": at("x", "y")}}, "destinations.a.prefix", "is for patterns and folders"),
        (
            {"destinations": {"a": at("x"), "plots/": at("x")}},
            "destinations.plots/.path",
            "is that of 'a' too",
        ),
        (
            {"outputs": ("{index}.txt",), "destinations": {"{index}.txt": at("x")}},
            "destinations.{index}.txt",
            "has a placeholder, but is for one file",
        ),
        ({"destinations": {"a": at("x")}, "jobs": 2}, "destinations", "are for a task of one job"),
        ({"mounts": {"/usr": "x"}}, "mounts./usr", "would hide what programs need; give a folder"),
        ({"mounts": {"/proc/x": "x"}}, "mounts./proc/x", "would hide what programs need"),
        ({"mounts": {"/data": "inputs/x"}}, "mounts./data", "'inputs' is there already"),
        ({"mounts": {"/d": "x/y"}, "payload_files": {"x": ""}}, "mounts./d", "'x' is there already"),
        ({"mounts": {"/d": "x", "/d/e": "y"}}, "mounts./d/e", "lies below /d, a mount too"),
        ({"mounts": {"/d": "x"}, "command": (), "outputs": ()}, "mounts./d", "is for an empty payload"),
    ],
)
def test_a_wrong_place_or_mount_is_refused(fields: dict[str, Any], place: str, message: str) -> None:
    faults = messages(spec(**fields))
    assert list(faults) == [place]
    assert faults[place].startswith(message)


@pytest.mark.parametrize("folder", ["x,/home/pilot:/home", "a:b", "a\\b", "../x", "/x", "a//b", "a\nb", ""])
def test_a_mounted_folder_cannot_name_one_of_the_node(folder: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(MountFolder).validate_python(folder)
    assert TypeAdapter(MountFolder).validate_python("root/..a b/ä") == "root/..a b/ä"


def test_a_storage_says_who_may_deliver_where() -> None:
    folders = {"work": (), "work/atlas": ("atlas",), "work/belle": ("belle",)}
    home = federation([queue()], storages={"HOME": {"delivery_folders": folders}})

    def refused(path: str, store: str = "HOME-DISK") -> list[str]:
        task = spec(destinations={"a": at(path, store=store)})
        return [fault.text for fault in place_faults(task, home, ALICE)]

    assert refused("work/x") == refused("work/atlas/x") == refused("work/belles") == []
    remedy = "give a path in work, work/atlas"
    assert refused("work/belle/x") == [
        f"'work/belle/x' is in no folder of HOME-DISK that your tasks may deliver to; {remedy}"
    ]
    assert refused("tasks")[0].startswith("'tasks' is below the folder of outputs")
    assert refused("works/x")[0].endswith(remedy)
    assert refused("x", "tape") == ["there is no storage 'tape'; known are HOME-DISK"]
