"""Each home has a name of its own: two cloned laptops share no folder of a spool."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pilotage import home_name
from pilotage.adapters.computing.batch.spool import spool_folder


def test_equal_hosts_and_paths_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("PILOTAGE_HOME", str(home))
    folders = set()
    for clone in range(3):
        home.mkdir()
        home_name.give_name(home)
        folders.add(spool_folder("/spool"))
        home.rename(tmp_path / f"clone-{clone}")
    assert len(folders) == 3
    # A home that was copied with all its files is told apart by its machine.
    (tmp_path / "clone-0").rename(home)
    assert spool_folder("/spool") in folders
    monkeypatch.setattr(home_name, "MACHINE", tmp_path / "machine-id")
    (tmp_path / "machine-id").write_text("another\n")
    assert spool_folder("/spool") not in folders


def test_processes_of_one_home_that_begin_at_once_have_one_name(tmp_path: Path) -> None:
    def begin(_: int) -> str:
        home_name.give_name(tmp_path)
        return home_name.name_of(tmp_path)

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(begin, range(64)))) == 1
    assert [path.name for path in tmp_path.iterdir()] == [home_name.FILE]
