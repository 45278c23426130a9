"""Movers are found by entry points and chosen by their abilities."""

import importlib.util
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.movers import loader
from pilotage.adapters.movers.processes import worker
from pilotage.adapters.movers.processes.processes import WorkerProcesses
from pilotage.model.records.federation import Storage
from pilotage.ports import adapters
from pilotage.ports.moving import Abilities


def nothing() -> None:
    """Nobody is told."""


class Stranger:
    """A mover of somebody else's."""

    stated = Abilities(
        name="copier", reads=frozenset({"x", "y"}), writes=frozenset({"x"}), scan=True, remove=True
    )

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.abilities, self.closed = self.stated, False

    def __getattr__(self, name: str) -> Any:
        if name in loader.METHODS:
            return lambda *_: None
        raise AttributeError(name)

    def close(self) -> None:
        self.closed = True


class ThirdParty(Stranger):
    stated = Abilities(
        name="fts", reads=frozenset({"x", "z"}), writes=frozenset({"x", "z"}), third_party=True
    )


class Lister(Stranger):
    stated = Abilities(name="lister", reads=frozenset({"x"}), writes=frozenset(), scan=True)


class Broken:
    def __init__(self, on_change: Callable[[], None]) -> None:
        raise OSError("no licence")


class NoMover:
    def __init__(self, on_change: Callable[[], None]) -> None:
        pass


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def install(**classes: str) -> None:
        entries = [EntryPoint(name, value, worker.GROUP) for name, value in classes.items()]
        monkeypatch.setattr(adapters, "entry_points", lambda **_: entries)

    return install


HERE = "tests.movers.test_loader"


def test_third_party_comes_first_and_streams_do_the_rest(installed: Callable[..., None]) -> None:
    installed(a=f"{HERE}:Stranger", b=f"{HERE}:ThirdParty", c=f"{HERE}:Lister")
    movers = loader.InstalledMovers(nothing)
    chosen = {
        pair: movers.for_delivery(*pair).abilities.name for pair in (("x://a", "x://b"), ("y://a", "x://b"))
    }
    assert chosen == {("x://a", "x://b"): "fts", ("y://a", "x://b"): "copier"}
    assert movers.for_storage(Storage(name="s", site="s", url="x://a")).abilities.name == "copier"
    movers.close()


def test_deliveries_may_run_in_processes(tmp_path: Path) -> None:
    movers = loader.InstalledMovers(nothing, processes=True)
    mover = movers.for_delivery("file:///a", "file:///b")
    assert isinstance(mover, WorkerProcesses)
    assert mover is movers.for_reading(Storage(name="s", site="s", url=f"file://{tmp_path}"))
    assert mover.pids == []
    movers.close()


def test_what_nobody_can_do_is_said(installed: Callable[..., None]) -> None:
    installed(a=f"{HERE}:Stranger")
    movers = loader.InstalledMovers(nothing)
    with pytest.raises(LookupError, match="no mover installed here reads s3://"):
        movers.for_delivery("s3://a", "x://b")
    with pytest.raises(LookupError, match="no mover installed here writes y:// from x://"):
        movers.for_delivery("x://a", "y://b")
    with pytest.raises(LookupError, match="storage s: no mover installed here lists s3://"):
        movers.for_storage(Storage(name="s", site="s", url="s3://a"))


@pytest.mark.parametrize(
    ("package", "scheme", "said"),
    [
        ("boto3", "s3", "boto3 is not installed: pip install 'pilotage[s3]'"),
        ("asyncssh", "sftp", "asyncssh is not installed: pip install 'pilotage[sftp]'"),
        ("XRootD", "root", "xrootd is not installed: pip install 'pilotage[xrootd]'"),
    ],
)
def test_what_to_install_is_said(
    package: str, scheme: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = entry_points(group="pilotage.storages")[scheme].module
    monkeypatch.delitem(sys.modules, module, raising=False)
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else find(name))
    movers = loader.InstalledMovers(nothing)
    with pytest.raises(LookupError) as failed:
        movers.for_delivery(f"{scheme}://a", "file:///b")
    assert str(failed.value) == f"no mover installed here reads {scheme}://; {said}"


def test_a_mover_that_cannot_be_made_is_left_out_and_logged(
    installed: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    installed(
        a=f"{HERE}:Broken",
        b="no.such.module:X",
        c=f"{HERE}:NoMover",
        d=f"{HERE}:nowhere",
        e=f"{HERE}:Stranger",
    )
    movers = loader.InstalledMovers(nothing)
    assert movers.for_delivery("x://a", "x://b").abilities.name == "copier"
    text = caplog.text
    assert "mover a is left out: no licence" in text
    assert "mover b is left out: adapter 'b' (no.such.module:X) cannot be imported" in text
    assert "mover 'c': NoMover has no method start, poll" in text
    assert "mover d is left out" in text


def test_a_name_offered_by_two_packages_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = [EntryPoint("a", f"{HERE}:{name}", worker.GROUP) for name in ("Stranger", "Lister")]
    monkeypatch.setattr(adapters, "entry_points", lambda **_: entries)
    with pytest.raises(
        adapters.AdapterError, match=r"offered more than once: .*Lister, .*Stranger; uninstall"
    ):
        adapters.factory(worker.GROUP, "a")


def test_the_house_s_own_moves_files(tmp_path: Path) -> None:
    movers = loader.InstalledMovers(nothing)
    mover = movers.for_storage(Storage(name="s", site="s", url=f"file://{tmp_path}"))
    assert "file" in mover.abilities.writes
    assert "https" in mover.abilities.reads & mover.abilities.writes
    assert not mover.abilities.reads & {"zip", "simplecache", "reference", "ftp"}
    movers.close()
