"""Files of several Pilotages at one storage keep apart, and names can be told by what they are."""

import pytest
from pydantic import TypeAdapter

from pilotage.model.records.work import FileName
from pilotage.model.values.paths import (
    copy_path,
    is_copy,
    is_output,
    is_scratch,
    maker,
    output_name,
    path_in_job,
    scratch_path,
)


def test_two_instances_never_use_the_same_path() -> None:
    assert scratch_path("north", 5, 1, "out") == ".scratch/north/5.1/out"
    assert scratch_path("south", 5, 1) == ".scratch/south/5.1"
    assert output_name("north", 2, 5, "out") == "tasks/north/2/5/out"
    assert path_in_job("tasks/north/2/5/out") == "out"
    assert path_in_job("user.a:tasks/north/2/5/plots/2026/x.png") == "plots/2026/x.png"


def test_the_longest_output_name_is_a_legal_file_name() -> None:
    largest = 2**63 - 1
    name = output_name("n" * 200, largest, largest, "o" * 200)
    assert TypeAdapter(FileName).validate_python(name) == name


@pytest.mark.parametrize(
    ("file", "task"),
    [
        ("tasks/north/2/5/out", 2),
        ("tasks/south/2/5/out", None),
        ("tasks/north/x/5/out", None),
        (f"tasks/north/{10**18}/5/out", None),
        ("tasks/north/²/5/out", None),
        ("tasks/north", None),
        ("data/north/2/5/out", None),
    ],
)
def test_the_maker_of_an_output_is_a_task_of_this_instance(file: str, task: int | None) -> None:
    assert maker("north", file) == task
    assert is_output(file) == file.startswith("tasks/")


def test_copies_lie_below_the_instance_and_the_scope() -> None:
    path = copy_path("north", "user.alice~atlas:runs/a:b")
    assert path == ".copies/north/user.alice~atlas/runs/a:b"
    assert is_copy(path)
    assert not is_copy("runs/a:b")


def test_scratch_is_what_lies_below_its_folder() -> None:
    assert is_scratch(".scratch/north/5.1")
    assert not any(is_scratch(path) for path in (".scratchy/5.1", ".scratch", "tasks/1"))
