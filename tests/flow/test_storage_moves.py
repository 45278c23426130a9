"""A storage moves: its files are copied, recorded at another name, or named as lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.calls.data import catalogue
from pilotage.flow.calls.data.storage_moves import MovePage, WantedMove, move
from pilotage.flow.calls.places import restrictions
from pilotage.flow.errors import NotNow, NotThere
from pilotage.flow.outside.workers import Inline
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import take
from pilotage.flow.steps import STEPS, step
from pilotage.model.documents.decision import Committed, Decision
from pilotage.model.records.federation import Federation, Link, Queue, Site, StagingConstants, Storage
from pilotage.model.records.inputs import InputFile
from pilotage.model.records.restrictions import Restriction
from pilotage.model.records.work import File, Replica
from pilotage.model.values.paths import copy_path
from pilotage.store import Store
from pilotage.testing.stores import create, new_jobs, new_task
from tests.waiting import wait_for


def _federation(directory: Path) -> Federation:
    return Federation(
        name="small",
        sites=(Site(name="north", nucleus=True), Site(name="south")),
        storages=(
            Storage(name="old", site="north", url=f"file://{directory}/old"),
            Storage(name="new", site="south", url=f"file://{directory}/new"),
            Storage(name="alias", site="north", url=f"local://{directory}/old"),
            Storage(name="twin", site="north", url=f"file://{directory}/old/"),
        ),
        queues=(Queue(name="q", site="south", storage="new"),),
        links=(Link(source="north", destination="south", closeness=1),),
        staging=StagingConstants(max_attempts=1),
    )


@pytest.fixture
def runtime(store: Store, tmp_path: Path) -> Iterator[Runtime]:
    """Storages on this machine's disk, on both databases; three files of which one is not there."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    for name in ("a", "b"):
        (tmp_path / "old" / name).write_text(name)
    store.save_federation(_federation(tmp_path), "test")
    made = Runtime(store, STEPS, load=load, movers=InstalledMovers, workers=Inline())
    found = [
        InputFile(name=name, size=1, checksum="", scope="x", replicas=("old",)) for name in ("a", "b", "c")
    ]
    catalogue.register(made, found, "test")
    yield made
    made.close()


def _drain(runtime: Runtime) -> None:
    because = Restriction(kind="storage", name="old", mode="drain", because="it goes", actor="o", since=0.0)
    restrictions.restrict(runtime, because)


def _moved(runtime: Runtime, new: str, **more: bool) -> MovePage:
    return move(runtime, WantedMove(old="old", new=new, **more), "", "operator:olga")


def _steps(page: MovePage) -> dict[str, str]:
    return {one.file: one.step for one in page.files}


def _places(runtime: Runtime, file: str) -> list[str]:
    entry = runtime.store.catalogue.entry(file)
    assert entry is not None
    return sorted(replica.storage for replica in entry.replicas)


def test_files_are_copied_and_the_old_place_is_forgotten(runtime: Runtime, tmp_path: Path) -> None:
    _drain(runtime)
    would = _moved(runtime, "new", dry_run=True)
    assert set(_steps(would).values()) == {"requested"}
    assert not runtime.store.queries.transfers(None, 9)
    assert _steps(_moved(runtime, "new")) == dict.fromkeys(("x:a", "x:b", "x:c"), "requested")

    def settled() -> bool:
        take(step("stage"), runtime, runtime.begin(100))
        return all(one.state in ("done", "failed") for one in runtime.store.queries.transfers(None, 9))

    wait_for(settled, "the end of the transfers")
    page = _moved(runtime, "new")
    assert (_steps(page)["x:a"], _steps(page)["x:b"]) == ("moved", "moved")
    assert (tmp_path / "new" / "a").read_text() == "a"
    assert (tmp_path / "old" / "a").exists(), "originals belong to their owners"
    assert _places(runtime, "x:a") == _places(runtime, "x:b") == ["new"]
    (lost,) = (one for one in page.files if one.file == "x:c")
    assert (lost.step, lost.lost, page.left) == ("failed", True, 1)
    assert lost.error
    assert _steps(_moved(runtime, "new", again=True)) == {"x:c": "requested"}


@pytest.mark.parametrize(("new", "same_place"), [("alias", True), ("twin", False)])
def test_another_name_of_one_place_needs_no_copy(runtime: Runtime, new: str, same_place: bool) -> None:
    _drain(runtime)
    page = _moved(runtime, new, same_place=same_place)
    assert page.same_place
    assert not runtime.store.queries.transfers(None, 9)
    looked = new == "alias"
    assert _steps(page) == {"x:a": "moved", "x:b": "moved", "x:c": "missing" if looked else "moved"}
    assert _places(runtime, "x:a") == [new]
    assert _places(runtime, "x:c") == (["old"] if looked else [new])


def test_two_names_of_one_place_lose_nothing_if_nobody_says_so(runtime: Runtime, tmp_path: Path) -> None:
    """A first move recorded a copy at both names, because a job read it; the next would delete its bytes."""
    _drain(runtime)
    path = copy_path("small", "x:shared")
    (tmp_path / "old" / path).parent.mkdir(parents=True)
    (tmp_path / "old" / path).write_text("1")
    file = File(name="x:shared", size=1, checksum="")
    create(runtime.store, file, *(Replica(file=file.name, storage=at, path=path) for at in ("old", "alias")))
    with pytest.raises(NotNow, match="old and alias are two names of one place: add --same-place"):
        _moved(runtime, "alias")
    assert (tmp_path / "old" / path).read_text() == "1"
    assert _places(runtime, "x:shared") == ["alias", "old"]
    assert not runtime.store.queries.transfers(None, 9)
    assert _steps(_moved(runtime, "alias", same_place=True))["x:shared"] == "moved"
    assert _places(runtime, "x:shared") == ["alias"]
    assert (tmp_path / "old" / path).read_text() == "1"


def test_a_move_that_cannot_work_is_refused(runtime: Runtime) -> None:
    with pytest.raises(NotNow, match="storages drain old"):
        _moved(runtime, "new")
    _drain(runtime)
    with pytest.raises(NotThere):
        _moved(runtime, "nowhere")
    with pytest.raises(NotNow, match="the same storage"):
        _moved(runtime, "old")
    for name, mode, told in (("new", "drain", "takes no files"), ("old", "close", "nothing may be read")):
        because = Restriction(kind="storage", name=name, mode=mode, because="x", actor="o", since=0.0)  # type: ignore[arg-type]
        restrictions.restrict(runtime, because)
        with pytest.raises(NotNow, match=told):
            _moved(runtime, "new")
        restrictions.lift(runtime, "storage", "new", "o")


def test_a_copy_stays_if_a_job_began_to_read_it_meanwhile(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _drain(runtime)
    store, commit = runtime.store, runtime.store.commit
    for name in ("read", "unread"):
        path = copy_path("small", f"x:{name}")
        (tmp_path / "old" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "old" / path).write_text("1")
        file = File(name=f"x:{name}", size=1, checksum="")
        places = (("old", path), ("new", ""))
        create(store, file, *(Replica(file=file.name, storage=at, path=its) for at, its in places))

    def commits(decision: Decision, actor: str) -> Committed:
        monkeypatch.undo()
        new_jobs(store, new_task(store), inputs=("x:read",))
        return commit(decision, actor)

    monkeypatch.setattr(store, "commit", commits)
    _moved(runtime, "new")
    take(step("watch"), runtime, runtime.begin(100))
    wait_for(lambda: not (tmp_path / "old" / copy_path("small", "x:unread")).exists(), "its removal")
    assert _places(runtime, "x:read") == ["new", "old"]
    assert (tmp_path / "old" / copy_path("small", "x:read")).exists()
