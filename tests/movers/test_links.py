"""Links that lead out of a storage, each an attack: nothing outside is read, written or deleted."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.movers.storages.fsspec_backend import FsspecBackend
from pilotage.adapters.movers.streaming import Streaming
from pilotage.model.records.federation import Storage
from pilotage.ports.moving import Delivery, DeliveryFailed, Place, StorageError

SECRET = b"not yours"


def own_files(folder: Path) -> list[Path]:
    """Files below a folder that are no links, nor behind links."""
    return [
        Path(at) / name
        for at, _, names in os.walk(folder)
        for name in names
        if not (Path(at) / name).is_symlink()
    ]


class Storages:
    """Two storages, and what lies outside of them."""

    def __init__(self, place: Path) -> None:
        self.north, self.south, self.outside = place / "north", place / "south", place / "outside"
        for folder in (self.north / "data", self.south, self.outside):
            folder.mkdir(parents=True)
        (self.north / "data/file").write_bytes(b"our bytes")
        (self.outside / "file").write_bytes(SECRET)
        self.mover = Streaming(lambda: None)

    def deliver(self, path: str = "data/file", scratch: bool = False) -> None:
        """Deliver from north to south; the checksum is unknown, and both files have the same size."""
        delivery = Delivery(
            transfer=1,
            attempt=1,
            file="data/file",
            size=len(SECRET),
            checksum="",
            source=Place(url=f"file://{self.north}", path=path),
            destination=Place(url=f"file://{self.south}", path="data/file"),
            scratch=scratch,
            instance="house",
        )
        self.mover.deliver(delivery, lambda _: None)

    def storage(self) -> Storage:
        return Storage(name="south", site="south", url=f"file://{self.south}")

    def untouched(self) -> bool:
        """Whether outside is as it was, and nothing of it has arrived."""
        return self.unwritten() and SECRET not in [path.read_bytes() for path in own_files(self.south)]

    def unwritten(self) -> bool:
        return [(path.name, path.read_bytes()) for path in self.outside.iterdir()] == [("file", SECRET)]


@pytest.fixture
def storages(tmp_path: Path) -> Storages:
    return Storages(tmp_path)


def test_a_storage_that_is_itself_reached_through_a_link_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name in ("north", "south"):
        (tmp_path / "real" / name).mkdir()
    (tmp_path / "links").mkdir()
    storages = Storages(tmp_path / "links")
    for name in ("north", "south"):
        (tmp_path / "links" / name).rename(tmp_path / "real" / f"{name}-storage")
        (tmp_path / "links" / name).symlink_to(tmp_path / "real" / f"{name}-storage")
    storages.deliver()
    assert (tmp_path / "real/south-storage/data/file").read_bytes() == b"our bytes"


def test_a_link_in_the_place_of_a_source_is_not_read(storages: Storages) -> None:
    (storages.north / "data/file").unlink()
    (storages.north / "data/file").symlink_to(storages.outside / "file")
    with pytest.raises(DeliveryFailed, match="is a symbolic link, which is never followed"):
        storages.deliver()
    assert storages.untouched()


@pytest.mark.parametrize("path", ["away/file", "data/away/file", "data/away/below/file"])
def test_a_linked_folder_is_not_read_through(storages: Storages, path: str) -> None:
    folder = storages.north / path.partition("away")[0] / "away"
    folder.symlink_to(storages.outside if path.count("/") < 3 else storages.outside.parent)
    with pytest.raises(DeliveryFailed, match="away is a symbolic link, which is never followed"):
        storages.deliver(path)
    assert storages.untouched()


def test_a_linked_scratch_area_is_neither_read_nor_cleared(storages: Storages) -> None:
    (storages.north / ".scratch/house").mkdir(parents=True)
    (storages.north / ".scratch/house/1.1").symlink_to(storages.outside)
    with pytest.raises(DeliveryFailed, match=r"1\.1 is a symbolic link"):
        storages.deliver(".scratch/house/1.1/file", scratch=True)
    assert storages.untouched()


def test_a_linked_folder_is_not_written_through(storages: Storages) -> None:
    (storages.south / "data").symlink_to(storages.outside)
    with pytest.raises(DeliveryFailed, match="data is a symbolic link, which is never followed"):
        storages.deliver()
    assert storages.untouched()


def test_a_link_in_the_place_of_a_destination_is_not_written_through(storages: Storages) -> None:
    (storages.south / "data").mkdir()
    (storages.south / "data/file").symlink_to(storages.outside / "file")
    with pytest.raises(DeliveryFailed, match="in the way: a symbolic link"):
        storages.deliver()
    assert storages.untouched()


def test_a_link_in_the_place_of_a_part_is_not_written_through(storages: Storages) -> None:
    (storages.south / "data").mkdir()
    (storages.south / "data/.file.house.1.1.part").symlink_to(storages.outside / "file")
    storages.deliver()
    assert (storages.south / "data/file").read_bytes() == b"our bytes"
    assert storages.untouched()


def test_a_pipe_in_the_place_of_a_source_does_not_hang_its_mover(storages: Storages) -> None:
    (storages.north / "data/file").unlink()
    os.mkfifo(storages.north / "data/file")
    with pytest.raises(DeliveryFailed, match="special file"):
        storages.deliver()


@contextmanager
def swapping(folder: Path, target: Path) -> Iterator[None]:
    """A folder and a link to ``target`` take turns under one name as fast as they can."""
    link, stop = folder.with_name("link"), threading.Event()
    link.symlink_to(target)
    exchange = ctypes.CDLL(None, use_errno=True).renameat2

    def swap() -> None:
        while not stop.is_set():
            assert exchange(-100, bytes(folder), -100, bytes(link), 2) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("side", ["north", "south"])
def test_a_folder_that_is_exchanged_for_a_link_meanwhile_is_no_way_out(storages: Storages, side: str) -> None:
    (storages.south / "data").mkdir(exist_ok=True)
    ends = {True: 0, False: 0}
    with swapping(getattr(storages, side) / "data", storages.outside):
        while sum(ends.values()) < 300 or (not ends[True] and sum(ends.values()) < 10_000):
            try:
                storages.deliver()
            except DeliveryFailed:
                ends[False] += 1
            else:
                ends[True] += 1
            assert storages.unwritten()
            assert side == "south" or storages.untouched()
    assert storages.untouched()
    assert ends[True], "some were delivered"


def test_a_scan_finds_nothing_behind_links(storages: Storages) -> None:
    (storages.south / "data").mkdir()
    (storages.south / "data/own").write_bytes(b"x")
    (storages.south / "away").symlink_to(storages.outside)
    (storages.south / "data/link").symlink_to(storages.outside / "file")
    (storages.south / "data/further").symlink_to(storages.outside)
    found = {
        glob: [file.name for file in storages.mover.scan(storages.storage(), glob)]
        for glob in ("**", "*/*", "away/*", "away/file", "data/link", "data/further/file", "a*/f*")
    }
    assert found.pop("**") == found.pop("*/*") == ["data/own"]
    assert set(map(tuple, found.values())) == {()}


def test_removing_a_scratch_area_deletes_nothing_behind_links(storages: Storages) -> None:
    scratch = storages.south / ".scratch/house"
    (scratch / "1.1").mkdir(parents=True)
    (scratch / "1.1/inside").symlink_to(storages.outside)
    (scratch / "1.2").symlink_to(storages.outside)
    storages.mover.remove(storages.storage(), ".scratch/house/1.1")
    assert not (scratch / "1.1").exists()
    with pytest.raises(StorageError, match="symbolic link"):
        storages.mover.remove(storages.storage(), ".scratch/house/1.2")
    with pytest.raises(StorageError, match="symbolic link"):
        storages.mover.remove(storages.storage(), ".scratch/house/1.2/below")
    assert storages.untouched()


def test_a_link_in_the_place_of_the_scratch_folder_deletes_nothing(storages: Storages) -> None:
    (storages.south / ".scratch").symlink_to(storages.outside.parent)
    with pytest.raises(StorageError, match="symbolic link"):
        storages.mover.remove(storages.storage(), ".scratch/outside")
    assert storages.untouched()


@pytest.mark.parametrize("renames", [True, False])
def test_fsspec_publishes_by_a_rename_where_the_server_has_one(
    monkeypatch: pytest.MonkeyPatch, renames: bool
) -> None:
    """A copy would send every byte twice."""
    backend = FsspecBackend("memory://renamed", {})
    memory = type(backend._filesystem)
    moved, copy = [], memory.cp_file

    def rename(self: Any, source: str, target: str, **_: Any) -> None:
        moved.append((source, target))
        copy(self, source, target)
        self.rm_file(source)

    if renames:
        monkeypatch.setattr(memory, "mv", rename)
        monkeypatch.setattr(memory, "cp_file", None)
    backend.store("data/f[1]*", "part[1]*", [b"by", b"tes"], 5)
    backend.rename("data/f[1]*", "data/g*")
    assert [name for name, _ in backend.entries("data")] == ["g*"]
    with backend.read("data/g*") as stream:
        assert stream.read() == b"bytes"
    assert len(moved) == 2 * renames


@pytest.mark.parametrize(
    "url", ["file:///data", "local:///data", "sftp://host/data", "simplecache://x", "dir://x"]
)
def test_fsspec_opens_nothing_that_follows_links(url: str) -> None:
    with pytest.raises(ValueError, match="may lead out of a storage"):
        FsspecBackend(url, {})
