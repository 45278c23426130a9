"""A task that names a dataset reads the version that was current at submission, for ever."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pilotage.flow.calls.data import catalogue, datasets
from pilotage.flow.outside.own_catalogue import Edit
from pilotage.model.documents.decision import Committed, Decision
from pilotage.model.records.inputs import Input
from pilotage.model.records.work import InputDataset, InputFile
from pilotage.model.values.identity import Identity
from pilotage.ports.catalogue import CatalogueError
from pilotage.store import FileConflict
from pilotage.store.files.datasets import DatasetVersion

from .house import ALICE, House

RUNS = "ligo:runs"


def file(name: str, size: int = 5, checksum: str = "md5:" + "0" * 32) -> InputFile:
    return InputFile(name=name, size=size, checksum=checksum, replicas=("south-disk",), scope="ligo")


def registered(house: House, *names: str) -> None:
    catalogue.register(house.runtime, [file(name) for name in names], "test")


def edited(house: House, *names: str, edit: Edit = "set", match: str = "") -> DatasetVersion:
    return datasets.edit(house.runtime, RUNS, names, match, edit, "user:alice")


def forget(house: House, name: str) -> None:
    entry = house.store.catalogue.entry(f"ligo:{name}")
    assert entry is not None
    catalogue.forget(house.runtime, entry, "", "test")


def read(house: House, *inputs: Input, owner: Identity = ALICE) -> tuple[Sequence[str], Sequence[str]] | str:
    """The files that a new task reads and the versions that it notes; or why it is refused."""
    outcome = house.submit({"inputs": inputs}, owner=owner)
    if outcome.refused:
        return outcome.refused[0][1][0][1]
    view = house.store.queries.task(outcome.tasks[0][1])
    assert view is not None
    return [one.name for one in view.spec.inputs if isinstance(one, InputFile)], view.datasets


def test_a_task_reads_the_version_that_is_current_when_it_is_submitted(house: House) -> None:
    registered(house, "a", "b", "c")
    first = edited(house, "a", "b")
    assert (first.dataset, first.version, first.files, first.size) == (RUNS, 1, 2, 10)
    assert (first.author, first.created) == ("user:alice", house.now)
    runs = InputDataset(dataset="runs")
    assert read(house, runs) == (["a", "b"], ("ligo:runs@1",))
    assert edited(house, "c", edit="add").version == 2
    assert edited(house, "a", edit="remove").version == 3
    assert read(house, runs) == (["b", "c"], ("ligo:runs@3",))
    assert read(house, replace(runs, version=1)) == (["a", "b"], ("ligo:runs@1",))
    assert read(house, replace(runs, version=2), file("d")) == (["a", "b", "c", "d"], ("ligo:runs@2",))
    assert [one.version for one in house.store.datasets.versions(RUNS, 10)] == [3, 2, 1]


def test_what_differs_in_nothing_is_no_new_version(house: House) -> None:
    registered(house, "runs/a", "runs/b", "x")
    assert edited(house, match="runs/*").version == 1
    assert edited(house, "runs/b", "runs/a").version == 1
    assert edited(house, "runs/a", edit="add").version == 1
    assert edited(house, "x", edit="remove").version == 1
    assert edited(house, match="runs/a", edit="remove").files == 1


def test_a_version_that_lost_a_file_is_refused_and_whole_again_with_it(house: House) -> None:
    registered(house, "a", "b")
    edited(house, "a", "b")
    forget(house, "a")
    message = read(house, InputDataset(dataset="runs"))
    assert "ligo:runs@1 is not whole: ligo:a is not in the catalogue any more" in message
    registered(house, "a")
    assert read(house, InputDataset(dataset="runs")) == (["a", "b"], ("ligo:runs@1",))


def test_a_file_that_changed_is_in_a_new_version_and_the_old_one_is_refused(house: House) -> None:
    registered(house, "a", "b")
    edited(house, "a", "b")
    changed = replace(file("a"), size=6)
    with pytest.raises(FileConflict, match="pilotage files forget ligo:a"):
        catalogue.register(house.runtime, [changed], "test")
    forget(house, "a")
    catalogue.register(house.runtime, [changed], "test")
    assert "ligo:a was changed since" in read(house, InputDataset(dataset="runs"))
    assert edited(house, "a", edit="add").version == 2
    assert read(house, InputDataset(dataset="runs")) == (["a", "b"], ("ligo:runs@2",))
    assert "ligo:runs@1 is not whole" in read(house, InputDataset(dataset="runs", version=1))
    assert [one.size for one in house.store.datasets.files(RUNS, 1)] == [5, 5]
    assert [one.size for one in house.store.datasets.files(RUNS, 2)] == [6, 5]


def test_what_there_is_not_is_refused_with_what_there_is(house: House) -> None:
    registered(house, "a")
    edited(house, "a")
    assert read(house, InputDataset(dataset="walks")) == "the catalogue has no dataset ligo:walks"
    assert "no version 4; its newest is 1" in read(house, InputDataset(dataset="runs", version=4))
    stranger = Identity(name="eve", vo="virgo")
    others = read(house, InputDataset(dataset="runs", scope="ligo"), owner=stranger)
    assert others == "the scope 'ligo' is not yours; yours are virgo, user.eve~virgo"
    with pytest.raises(LookupError, match="does not have ligo:b and 1 more; register"):
        edited(house, "b", "c")
    with pytest.raises(CatalogueError, match="ligo:runs would have no files"):
        edited(house, "a", edit="remove")


def test_of_two_who_make_a_version_at_once_each_gets_one_of_their_own(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(house, "a", "b", "c")
    edited(house, "a")
    own = house.runtime.catalogues.own
    commit = house.store.commit

    def commit_late(decision: Decision, actor: str) -> Committed:
        monkeypatch.setattr(house.store, "commit", commit)
        edited(house, "b", edit="add")
        return commit(decision, actor)

    monkeypatch.setattr(house.store, "commit", commit_late)
    assert own.edit(RUNS, house.store.catalogue.files(["ligo:c"]), "add", "bob").version == 3
    assert [one.name for one in house.store.datasets.files(RUNS, 3)] == ["ligo:a", "ligo:b", "ligo:c"]


def test_datasets_are_listed_by_scope_with_their_current_versions(house: House) -> None:
    registered(house, "a", "b")
    for name in ("runs", "runs2", "walks"):
        datasets.edit(house.runtime, f"ligo:{name}", ["a"], "", "set", "test")
    edited(house, "b", edit="add")
    listed = house.store.datasets.current("ligo", "", 10)
    assert [(one.dataset, one.version) for one in listed] == [
        ("ligo:runs", 2),
        ("ligo:runs2", 1),
        ("ligo:walks", 1),
    ]
    assert [one.dataset for one in house.store.datasets.current("ligo", "ligo:runs", 1)] == ["ligo:runs2"]
    assert house.store.datasets.current("lig", "", 10) == []
