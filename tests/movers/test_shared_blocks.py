"""Copies between directories of a file system that can share the blocks of two files."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotage.adapters.movers.storages.local import LocalBackend
from pilotage.ports.moving import DeliveryFailed
from tests.movers.test_movers import CONTENT, deliver, delivery, files_below


def store(*_: object) -> None:
    raise AssertionError("it is written again")


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    """A file system that shares blocks."""
    if not shutil.which("mkfs.xfs") or os.getuid() != 0:
        pytest.skip("no mkfs.xfs, or not root, who may mount it: apt-get install xfsprogs")
    image, place = tmp_path / "image", tmp_path / "xfs"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(400 << 20)
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_copy_shares_the_blocks_of_its_original(xfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalBackend, "store", store)
    (xfs / "source/data").mkdir(parents=True)
    (xfs / "source/data/file").write_bytes(CONTENT)
    deliver(delivery(xfs / "source", xfs / "there"), lambda _: None)
    assert files_below(xfs / "there") == ["data/file"]
    (xfs / "source/data/file").write_bytes(b"changed")
    assert (xfs / "there/data/file").read_bytes() == CONTENT


@pytest.mark.parametrize("wrong", [False, True])
def test_what_is_shared_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool) -> None:
    """A copy stands in for the sharing, which this machine's file system may not have."""

    def share(target: int, _: int, source: int) -> None:
        while chunk := os.read(source, 1 << 20):
            os.write(target, b"other" if wrong else chunk)

    source, there = tmp_path / "source", tmp_path / "there"
    (source / "data").mkdir(parents=True)
    (source / "data/file").write_bytes(CONTENT)
    monkeypatch.setattr("fcntl.ioctl", share)
    monkeypatch.setattr(LocalBackend, "store", store)
    if wrong:
        with pytest.raises(DeliveryFailed, match="must have"):
            deliver(delivery(source, there), lambda _: None)
    else:
        deliver(delivery(source, there), lambda _: None)
    assert files_below(there) == ([] if wrong else ["data/file"])
