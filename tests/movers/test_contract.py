"""The house's movers keep the contract, and the contract finds those that do not."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from pilotage.adapters.movers.contract import Rig, violations
from pilotage.adapters.movers.processes.threads import RunningCopy
from pilotage.adapters.movers.streaming import Streaming
from pilotage.model.records.federation import Storage
from pilotage.ports.moving import (
    SCAN_LIMITS,
    Delivered,
    Delivery,
    DeliveryStatus,
    ScanLimits,
    ScannedFiles,
    Started,
)
from tests.movers.servers import directory_rig, nginx, rclone
from tests.waiting import PATIENCE

S3_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key-of-a-test",
    "AWS_SECRET_ACCESS_KEY": "secret-of-a-test",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def local_rig(place: Path) -> Rig:
    """Two directories."""
    roots = {name: place / name for name in ("north", "south")}
    return directory_rig(roots, {name: f"file://{root}" for name, root in roots.items()})


def memory_rig() -> Rig:
    """Two folders of fsspec's memory."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()

    def put(storage: Storage, path: str, content: bytes) -> None:
        memory.pipe_file(f"/{storage.name}/{path}", content)

    def read(storage: Storage, path: str) -> bytes | None:
        return (
            memory.cat_file(f"/{storage.name}/{path}") if memory.exists(f"/{storage.name}/{path}") else None
        )

    def names(storage: Storage) -> list[str]:
        return sorted(path.removeprefix(f"/{storage.name}/") for path in memory.find(f"/{storage.name}"))

    north, south = (Storage(name=name, site=name, url=f"memory://{name}") for name in ("north", "south"))
    return Rig(source=north, destination=south, put=put, read=read, names=names)


def test_streaming_keeps_the_contract_in_memory() -> None:
    assert violations(Streaming, memory_rig()) == []


def test_streaming_keeps_the_contract_with_files(tmp_path: Path) -> None:
    assert violations(Streaming, local_rig(tmp_path)) == []


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, Path]:
    """Two directories to serve."""
    made = {name: tmp_path / name for name in ("north", "south")}
    for root in made.values():
        root.mkdir(mode=0o777)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("local", [(), ("north",), ("south",)])
@pytest.mark.parametrize("kind", ["rclone", "nginx"])
def test_streaming_keeps_the_contract_with_webdav(
    roots: dict[str, Path], tmp_path: Path, kind: str, local: tuple[str, ...]
) -> None:
    """Between two folders of one server, and between a server and a directory, both ways."""
    serve = rclone("webdav", tmp_path) if kind == "rclone" else nginx(tmp_path, tmp_path)
    with serve as address:
        urls = {
            name: f"file://{root}" if name in local else f"http://{address}/{name}"
            for name, root in roots.items()
        }
        # The index pages of nginx leave out hidden files.
        rig = replace(directory_rig(roots, urls), lists_hidden=kind != "nginx" or "north" in local)
        assert violations(Streaming, rig) == []


@pytest.mark.slow
@pytest.mark.parametrize("local", [(), ("north",), ("south",)])
def test_streaming_keeps_the_contract_with_s3(
    roots: dict[str, Path], tmp_path: Path, local: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two buckets, and between a bucket and a directory, both ways."""
    pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'pilotage[s3]'")
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with rclone("s3", tmp_path, "--auth-key", "key-of-a-test,secret-of-a-test") as address:
        urls = {name: f"file://{root}" if name in local else f"s3://{name}" for name, root in roots.items()}
        rig = directory_rig(roots, urls, endpoint_url=f"http://{address}", region="us-east-1")
        found = ThreadPoolExecutor(1).submit(violations, Streaming, rig)
        try:
            assert found.result(PATIENCE) == []
        except TimeoutError:
            # Its S3 server can spin for ever while it removes a folder: that says nothing of a mover, but any
            # other hang does.
            if "Dir.Remove not empty" not in (tmp_path.parent / "rclone.log").read_text():
                raise
            pytest.skip("rclone's S3 server hangs")


class Faulty(Streaming):
    """A mover whose every fault is asked for by name."""

    def __init__(self, on_change: Callable[[], None], fault: str) -> None:
        super().__init__(on_change)
        self.fault = fault
        self._original = self._copy
        self._copy = self._faulty

    def _faulty(self, delivery: Delivery, progress: RunningCopy) -> Delivered | None:
        if self.fault == "scratch stays":
            delivery = replace(delivery, scratch=False)
        if self.fault == "source goes":
            delivery = replace(delivery, scratch=True)
        if self.fault == "checksum unchecked":
            delivery = replace(delivery, checksum="")
        return self._original(delivery, progress)

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
        answers = super().start(deliveries)
        return [Started(reference="same")] * len(answers) if self.fault == "same reference" else answers

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        found = super().poll(references)
        if self.fault == "unknown fails":
            return {
                reference: DeliveryStatus(state="failed", error="?") if status.state == "unknown" else status
                for reference, status in found.items()
            }
        if self.fault == "counts nothing":
            return {reference: replace(status, bytes=0) for reference, status in found.items()}
        return found

    def scan(self, storage: Storage, glob: str, limits: ScanLimits = SCAN_LIMITS) -> ScannedFiles:
        found = super().scan(storage, glob, limits)
        if self.fault == "scan unsorted":
            found.reverse()
        return found

    def remove(self, storage: Storage, prefix: str) -> None:
        if self.fault == "remove nothing":
            return
        super().remove(storage, prefix)

    def close(self) -> None:
        if self.fault != "open for ever":
            super().close()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("scratch stays", "delivered from the scratch area is still there"),
        ("source goes", "a source that is not scratch is changed"),
        ("checksum unchecked", "a file of another checksum does not fail"),
        pytest.param("same reference", "two deliveries have the references", marks=pytest.mark.slow),
        ("unknown fails", "a reference that it never gave is not unknown"),
        ("counts nothing", "bytes counts 0"),
        ("scan unsorted", "scanned/* finds ['scanned/b', 'scanned/a'"),
        ("remove nothing", "removing .scratch/contract/1.1 leaves"),
        ("open for ever", "a closed mover starts deliveries"),
    ],
)
def test_the_contract_finds_a_mover_that_breaks_it(tmp_path: Path, fault: str, said: str) -> None:
    patience = 0.2 if fault == "same reference" else 2.0  # with one for all, some deliveries never end
    found = violations(lambda on_change: Faulty(on_change, fault), local_rig(tmp_path), patience)
    assert [text for text in found if said in text], found
