"""Files that are half there: gone on with where that is safe, and never a wrong one under its name."""

import fcntl
import os
import threading
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from pilotage.adapters.movers.storages import local, s3_backend
from pilotage.adapters.movers.streaming import Streaming
from pilotage.ports.moving import Delivery, DeliveryFailed, Place
from tests.movers.servers import nginx, rclone
from tests.movers.test_contract import S3_ENVIRONMENT
from tests.waiting import PATIENCE

CONTENT = os.urandom(1 << 20) * 20
HALF = len(CONTENT) // 2


class House:
    """Two directories, and a file in one of them that an earlier attempt brought halfway."""

    def __init__(self, place: Path) -> None:
        self.here, self.there = place / "here", place / "there"
        for folder in (self.here, self.there):
            folder.mkdir()
        (self.here / "file").write_bytes(CONTENT)
        self.part = self.there / ".file.house.1.1.part"
        self.part.write_bytes(CONTENT[:HALF])
        self.source = Place(url=f"file://{self.here}", path="file")

    def order(self, attempt: int = 2, checksum: str = f"adler32:{zlib.adler32(CONTENT):08x}") -> Delivery:
        return Delivery(
            transfer=1,
            attempt=attempt,
            file="file",
            size=len(CONTENT),
            checksum=checksum,
            source=self.source,
            destination=Place(url=f"file://{self.there}", path="file"),
            instance="house",
            retried=True,
        )

    def deliver(self, delivery: Delivery) -> list[int]:
        seen: list[int] = []
        Streaming(lambda: None).deliver(delivery, seen.append)
        return seen

    def names(self) -> list[str]:
        return sorted(path.name for path in self.there.iterdir())


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def read_from(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where reading files of directories began."""
    begun: list[int] = []
    original = local.LocalBackend.read_from

    def noted(self: local.LocalBackend, path: str, start: int) -> object:
        begun.append(start)
        return original(self, path, start)

    monkeypatch.setattr(local.LocalBackend, "read_from", noted)
    return begun


def test_only_what_is_missing_is_read(house: House, read_from: list[int]) -> None:
    house.deliver(house.order())
    assert read_from[-1] == HALF
    assert house.names() == ["file"]
    assert (house.there / "file").read_bytes() == CONTENT


def test_a_part_that_is_whole_needs_no_source(house: House) -> None:
    house.part.write_bytes(CONTENT)
    (house.here / "file").unlink()
    house.deliver(house.order())
    assert (house.there / "file").read_bytes() == CONTENT


def test_the_last_attempt_goes_on_too(house: House, read_from: list[int]) -> None:
    house.deliver(replace(house.order(5), retried=False))
    assert read_from[-1] == HALF


def test_a_part_of_another_version_is_found_out_and_thrown_away(house: House) -> None:
    house.part.write_bytes(os.urandom(HALF))
    with pytest.raises(DeliveryFailed, match="has checksum"):
        house.deliver(house.order())
    assert house.names() == []
    house.deliver(house.order(3))
    assert (house.there / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT + b"more", b""], ids=["too long", "empty"])
def test_a_part_that_cannot_be_right_is_of_no_harm(house: House, content: bytes) -> None:
    house.part.write_bytes(content)
    try:
        house.deliver(house.order())
    except DeliveryFailed:
        assert house.names() == []
        house.deliver(house.order(3))
    assert (house.there / "file").read_bytes() == CONTENT


def test_without_a_checksum_nothing_is_gone_on_with(house: House, read_from: list[int]) -> None:
    house.deliver(house.order(checksum=""))
    assert read_from[-1] == 0
    assert house.names() == ["file"]


def test_a_part_that_somebody_still_writes_is_left_to_them(house: House, read_from: list[int]) -> None:
    with house.part.open("r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        house.deliver(house.order())
        other.seek(0)
        other.write(b"late, and of no consequence")
    assert read_from[-1] == 0
    assert (house.there / "file").read_bytes() == CONTENT
    assert house.names() == ["file"]


def test_a_slow_mover_of_a_former_attempt_publishes_nothing(house: House, tmp_path: Path) -> None:
    """It holds its part while the next attempt brings the file; then it goes on, and fails."""
    house.part.unlink()
    slow, faults = threading.Event(), []
    reached = threading.Event()

    def progress(read: int) -> None:
        if read >= HALF:
            reached.set()
            slow.wait(PATIENCE)

    def former() -> None:
        try:
            Streaming(lambda: None).deliver(house.order(1), progress)
        except DeliveryFailed as fault:
            faults.append(str(fault))

    thread = threading.Thread(target=former)
    thread.start()
    assert reached.wait(PATIENCE)
    house.deliver(house.order(2))
    slow.set()
    thread.join(PATIENCE)
    assert "No such file or directory" in faults[0]
    assert house.names() == ["file"]
    assert (house.there / "file").read_bytes() == CONTENT


def test_a_link_in_the_place_of_a_part_is_not_written_through(house: House, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(CONTENT[:HALF])
    house.part.unlink()
    house.part.symlink_to(outside)
    house.deliver(house.order())
    assert outside.read_bytes() == CONTENT[:HALF]
    assert (house.there / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("ranges", [True, False])
def test_a_web_server_is_asked_for_the_rest_and_without_ranges_for_all(
    house: House, tmp_path: Path, ranges: bool
) -> None:
    (tmp_path / "nginx").mkdir()
    with nginx(house.here, tmp_path / "nginx", more="" if ranges else "max_ranges 0;") as address:
        house.source = Place(url=f"http://{address}", path="file")
        house.deliver(house.order())
    assert (house.there / "file").read_bytes() == CONTENT


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adler32", "md5", ""])
def test_a_bucket_s_server_copies_from_another_one_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """No byte is sent by us; with an md5 none is read either."""
    import hashlib

    pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'pilotage[s3]'")
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "root"
    for bucket in ("north", "south"):
        (root / bucket).mkdir(parents=True)
    (root / "north/file").write_bytes(CONTENT)
    read: list[str] = []
    original = s3_backend.S3Backend.read_from

    def noted(self: s3_backend.S3Backend, path: str, start: int) -> object:
        read.append(path)
        return original(self, path, start)

    monkeypatch.setattr(s3_backend.S3Backend, "read_from", noted)
    monkeypatch.setattr(s3_backend.S3Backend, "store", lambda *_: pytest.fail("bytes were sent"))
    checksums = {
        "adler32": f"adler32:{zlib.adler32(CONTENT):08x}",
        "md5": f"md5:{hashlib.md5(CONTENT).hexdigest()}",
    }
    with rclone("s3", root, "--auth-key", "key-of-a-test,secret-of-a-test") as address:
        options = {"endpoint_url": f"http://{address}", "region": "us-east-1"}
        places = [Place(url=f"s3://{one}", path="file", options=options) for one in ("north", "south")]
        order = Delivery(
            transfer=1,
            attempt=1,
            file="file",
            size=len(CONTENT),
            checksum=checksums.get(kind, ""),
            source=places[0],
            destination=places[1],
            instance="house",
        )
        Streaming(lambda: None).deliver(order, lambda _: None)
        wrong = replace(order, destination=replace(places[1], path="wrong"), checksum="md5:" + "0" * 32)
        with pytest.raises(DeliveryFailed, match="has checksum"):
            Streaming(lambda: None).deliver(wrong, lambda _: None)
    assert (root / "south/file").read_bytes() == CONTENT
    assert [path.name for path in (root / "south").iterdir()] == ["file"]
    assert bool(read) == (kind != "md5")
