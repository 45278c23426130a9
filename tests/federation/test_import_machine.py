"""A machine's description of itself becomes a site with one queue."""

import pytest

from pilotage.federation.importers.inspection import SECTION
from pilotage.federation.importers.machine import describe


def answer(**changes: str) -> str:
    """What a machine of four cores says; a section that is empty is one whose command failed."""
    told = {
        "cores": "4",
        "memory": "8000000",
        "limit": "max",
        "gpus": "",
        "home": "/home/me",
        "python": "Python 3.11.2",
        "host": "box.example.org",
    }
    return "Welcome!\n" + "".join(f"{SECTION}{name}\n{text}\n" for name, text in (told | changes).items())


def test_a_machine_is_a_queue_of_its_cores() -> None:
    found = describe(answer(), "ssh", {"ssh": "me@box"})
    assert found.records["sites"] == [{"name": "box"}]
    assert found.records["storages"] == [
        {"name": "box-disk", "site": "box", "url": "sftp://me@box/home/me/pilotage-data"}
    ]
    (queue,) = found.records["queues"]
    assert queue["max_memory"] == 1843, "nine tenths of 8000000 kiB, in four parts, in MB"
    element = queue["computing_element"]
    assert (element["kind"], element["max_pilots"], element["options"]) == ("ssh", 4, {"ssh": "me@box"})


def test_b18_the_storage_of_a_small_disk_takes_jobs() -> None:
    small = describe(answer(space="/dev/sda 99 9 75000000 1% /"), "ssh", {"ssh": "me@box"})
    assert small.records["storages"][0]["storage_min_free"] == 7.5


def test_the_memory_is_what_a_control_group_leaves() -> None:
    (queue,) = describe(answer(limit="4000000000"), "ssh", {"ssh": "box"}).records["queues"]
    assert queue["max_memory"] == 900


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        ({"gpus": "NVIDIA A100"}, "gpus", "GPUs are left out"),
        ({"python": "Python 3.6.8"}, "python", "too old"),
        ({"python": ""}, "python", "too old"),
        ({"host": "box one"}, "name", "named box-one"),
    ],
)
def test_what_needs_a_look_is_noted(changes: dict[str, str], field: str, text: str) -> None:
    notes = {note.field: note.text for note in describe(answer(**changes), "ssh", {"ssh": "box"}).notes}
    assert text in notes[field]


def test_a_machine_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="did not say how many cores"):
        describe("Permission denied\n", "ssh", {"ssh": "box"})
    assert (
        "max_memory"
        not in describe(answer(memory="", limit=""), "process", {}, "file:///x").records["queues"][0]
    )
