"""Outputs become the next version of a dataset in the scope of whoever owns the task."""

from pathlib import Path
from typing import Any

import pytest

from pilotage.flow.calls.work.retry import publish_again
from pilotage.flow.outside.own_catalogue import OwnCatalogue
from pilotage.model.records.spec_parts import MergeSpec
from pilotage.model.records.states import PublicationState
from pilotage.model.records.work import File, InputDataset, InputFile
from pilotage.model.values.identity import Identity
from pilotage.ports.catalogue import CatalogueError
from pilotage.store import Store

from .house import attempts
from .test_publishing import Publisher, checksum, refusals

RESULTS = "user.alice~ligo:results"


@pytest.fixture
def house(store: Store, tmp_path: Path) -> Publisher:
    return Publisher(store, tmp_path)


def files(house: Publisher, version: int = 1, dataset: str = RESULTS) -> list[str]:
    return [file.name for file in house.store.datasets.files(dataset, version)]


def names(task: int, *jobs: int) -> list[str]:
    return [f"user.alice~ligo:tasks/flow/{task}/{job}/out" for job in jobs]


@pytest.mark.parametrize("named", ["results", RESULTS])
def test_outputs_are_a_dataset_that_another_task_reads(house: Publisher, named: str) -> None:
    task = house.asked(named, jobs=3)
    house.run()
    assert house.told(task) == f"outputs in {RESULTS}: not made yet"
    house.take("publish")
    made = house.store.datasets.version(RESULTS)
    assert made is not None
    assert (made.version, made.files, made.size, made.author) == (1, 3, 12, f"task:{task}")
    assert files(house) == names(task, 1, 2, 3)
    assert house.told(task) == f"outputs are the dataset {RESULTS}@1"
    ((_, reader),) = house.submit(
        {"inputs": (InputDataset(dataset="results", scope="user.alice~ligo"),)}
    ).tasks
    view = house.store.queries.task(reader)
    assert view is not None
    read = [one for one in view.spec.inputs if isinstance(one, InputFile)]
    assert [(one.identifier, one.checksum, one.replicas) for one in read] == [
        (name, checksum("made"), ("north-disk",)) for name in names(task, 1, 2, 3)
    ]
    assert view.datasets == (f"{RESULTS}@1",)


def test_nothing_is_a_dataset_before_the_task_has_finished(house: Publisher) -> None:
    task = house.asked("results", jobs=2, max_attempts=1)
    assert house.told(task) == f"outputs in {RESULTS}: made when the task has finished"
    house.run(good=False)
    house.take("publish")
    assert house.store.datasets.version(RESULTS) is None
    assert house.told(task) == f"outputs in {RESULTS}: no version is made of a task that has failed"


def test_of_a_task_that_merges_the_dataset_has_what_was_merged(house: Publisher) -> None:
    task = house.asked("results", jobs=2, merge=MergeSpec(command=("x",), outputs=("out",)))
    house.run()
    house.run("merged")
    house.take("publish")
    assert files(house) == names(task, 3)


def test_a_dataset_that_is_there_has_a_next_version(house: Publisher) -> None:
    own = house.runtime.catalogues.own
    own.edit(RESULTS, [File(name="user.alice~ligo:old", size=1, checksum="")], "set", "user:alice")
    task = house.asked("results")
    house.run()
    house.take("publish")
    assert files(house, 1) == ["user.alice~ligo:old"]
    assert files(house, 2) == names(task, 1)
    assert house.told(task) == f"outputs are the dataset {RESULTS}@2"


def test_gathering_may_be_repeated(house: Publisher) -> None:
    task = house.asked("results", jobs=2)
    house.run()
    for _ in range(2):
        house.runtime.catalogues.own.gather(RESULTS, task)
    house.take("publish")
    assert [one.version for one in house.store.datasets.versions(RESULTS, 10)] == [1]
    assert house.told(task) == f"outputs are the dataset {RESULTS}@1"


def test_a_task_that_left_nothing_says_so(house: Publisher) -> None:
    task = house.asked("results", optional_outputs=("out",))
    house.take("broker")
    pilot = house.pilot()
    pairs = attempts(house.match(pilot))
    house.report(pilot, "running", pairs)
    house.report(pilot, "done", pairs)
    house.take("stage")
    house.take("finish")
    house.take("publish")
    assert f"outputs in {RESULTS}: not made yet: task {task} left no outputs" in house.told(task)
    assert f"pilotage publish {task}" in house.told(task)


def test_what_others_are_in_the_way_of_is_tried_again(
    house: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: Any) -> None:
        raise CatalogueError("others make versions of it")

    task = house.asked("results")
    house.run()
    with monkeypatch.context() as patch:
        patch.setattr(OwnCatalogue, "edit", busy)
        house.take("publish")
    assert "not made yet: others make versions of it" in house.told(task)
    assert publish_again(house.runtime, task, "user:alice") == 0
    house.now += 60
    house.take("publish")
    assert files(house) == names(task, 1)
    closing = house.store.publication_queries.of_task(task).closing
    assert closing is not None
    assert (closing.state, closing.attempt) == (PublicationState.PUBLISHED, 2)


def test_a_scope_of_others_is_refused(house: Publisher) -> None:
    asked = {"outputs": ("out",), "command": ("x",), "output_dataset": "user.bob~ligo:results"}
    assert refusals(house.submit(asked).refused) == [
        "outputs of your tasks are in your own scope, and 'user.bob~ligo' is not that; "
        "give user.alice~ligo:NAME, or NAME alone"
    ]


def test_a_name_that_no_task_could_read_is_refused(house: Publisher) -> None:
    asked = {"outputs": ("out",), "command": ("x",), "output_dataset": "x" * 401}
    assert refusals(house.submit(asked).refused) == ["its name has 401 characters; 400 at most"]


def test_a_dataset_gathers_the_outputs_of_one_task_by_either_name(house: Publisher) -> None:
    asked = {"outputs": ("out",), "command": ("x",)}
    house.submit({**asked, "output_dataset": "results"})
    assert refusals(house.submit({**asked, "output_dataset": RESULTS}).refused) == [
        f"{RESULTS} is the dataset of task 1; wait for its end or cancel it, or name another one"
    ]
    bob = house.submit({**asked, "output_dataset": "results"}, owner=Identity(name="bob", vo="ligo"))
    assert len(bob.tasks) == 1


def test_who_names_it_without_its_scope_is_told_of_it(house: Publisher) -> None:
    house.asked("results")
    house.run()
    house.take("publish")
    assert refusals(house.submit({"inputs": (InputDataset(dataset="results"),)}).refused) == [
        f"the catalogue has no dataset ligo:results; yours is {RESULTS}: "
        "give `scope: user.alice~ligo` with it"
    ]
