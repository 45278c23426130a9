"""Folders are measured and removed whatever a payload did to them."""

import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pilotage.agent.machine import drop_capabilities
from pilotage.agent.payload import trees
from pilotage.agent.payload.trees import DEEPEST, UnmeasuredError, disk_usage, remove_tree


def _call(function: Callable[[str], object], argument: str, told: "multiprocessing.Queue[object]") -> None:
    # Root reads what has no permissions: pilots are not root.
    drop_capabilities()
    try:
        told.put(function(argument))
    except (OSError, UnmeasuredError) as error:
        told.put(repr(error))


def as_a_user(function: Callable[[str], object], argument: Path) -> object:
    """Call a function as a user without the rights of root."""
    context = multiprocessing.get_context("fork")
    told: multiprocessing.Queue[object] = context.Queue()
    process = context.Process(target=_call, args=(function, str(argument), told))
    process.start()
    answer = told.get(timeout=30)
    process.join()
    return answer


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o200, 0o400, 0o500, 0o600])
@pytest.mark.parametrize("closed", ["job", "job/a", "job/a/b"])
def test_folders_without_permissions_are_measured_and_left_as_they_were(
    tmp_path: Path, mode: int, closed: str
) -> None:
    place = tmp_path / "job"
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "b" / "big").write_bytes(bytes(5_000_000))
    (tmp_path / closed).chmod(mode)
    found = as_a_user(disk_usage, place)
    assert isinstance(found, int)
    assert 5_000_000 <= found < 5_100_000
    assert (tmp_path / closed).stat().st_mode & 0o777 == mode
    assert as_a_user(remove_tree, place) is None
    assert not place.exists()


def nest(place: Path, depth: int, mode: int = 0o755) -> None:
    """Make folders within each other, beyond what any path may have."""
    above = os.open(place, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 200, dir_fd=above)
        folder = os.open("d" * 200, os.O_RDONLY, dir_fd=above)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        os.fchmod(above, mode)
        os.close(above)
        above = folder
    os.close(above)


def test_a_tree_that_is_too_deep_is_no_small_one(tmp_path: Path) -> None:
    place = tmp_path / "job"
    place.mkdir()
    nest(place, DEEPEST - 1)
    assert isinstance(as_a_user(disk_usage, place), int)
    remove_tree(str(place))
    place.mkdir()
    nest(place, DEEPEST + 1)
    assert "more than" in str(as_a_user(disk_usage, place))
    remove_tree(str(place))


def test_a_tree_of_too_many_files_is_no_small_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty files take no blocks. But millions of them use up inodes, and to look at them takes long."""
    monkeypatch.setattr(trees, "MOST_ENTRIES", 100)
    for folder in range(10):
        (tmp_path / "job" / f"{folder}").mkdir(parents=True)
        for number in range(9):
            (tmp_path / "job" / f"{folder}" / f"{number}").touch()
    assert isinstance(disk_usage(str(tmp_path / "job")), int)
    (tmp_path / "job" / "one").touch()
    with pytest.raises(UnmeasuredError, match="more than 100 files and folders"):
        disk_usage(str(tmp_path / "job"))
    remove_tree(str(tmp_path / "job"))


@pytest.mark.parametrize("mode", [0o755, 0o000])
def test_a_tree_of_any_depth_is_removed(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "job"
    place.mkdir()
    nest(place, 1500, mode)
    assert as_a_user(remove_tree, place) is None
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    outside.chmod(0o700)
    place = tmp_path / "job"
    (place / "a").mkdir(parents=True)
    for link in (place / "link", place / "a" / "link"):
        link.symlink_to(outside)
    os.mkfifo(place / "pipe")
    remove_tree(str(place))
    (tmp_path / "job").symlink_to(outside)
    remove_tree(str(place))
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "precious").read_text() == "x"


def test_a_folder_that_is_gone_takes_nothing(tmp_path: Path) -> None:
    assert disk_usage(str(tmp_path / "gone")) == 0


def test_both_count_what_a_plain_walk_counts(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / "job" / f"{number}").mkdir(parents=True)
        (tmp_path / "job" / f"{number}" / "file").write_bytes(bytes(number * 1000))
    plain = sum(path.lstat().st_blocks * 512 for path in (tmp_path / "job").rglob("*"))
    assert disk_usage(str(tmp_path / "job")) == plain
    shutil.rmtree(tmp_path / "job")
