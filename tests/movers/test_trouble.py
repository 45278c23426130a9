"""Storages that break, fill up or vanish while a file is under way: no wrong file ever has its name.

Each on a real server of each protocol, behind a proxy that makes the trouble.
"""

import os
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.movers.http import downloads
from pilotage.adapters.movers.sftp import sftp_streams
from pilotage.adapters.movers.storages import xrootd_backend
from pilotage.adapters.movers.streaming import Streaming
from pilotage.model.records.observations import Fault
from pilotage.ports.moving import Delivery, DeliveryFailed, Place
from tests.movers.servers import nginx, rclone
from tests.movers.sftp import sftp
from tests.movers.test_contract import S3_ENVIRONMENT
from tests.movers.trouble import Proxy, proxy
from tests.movers.xrootd import xrootd

LARGE = os.urandom(1 << 20) * 24
HALF = len(LARGE) // 2
SMALL = LARGE[: 1 << 20]
PROTOCOLS = ("http", "sftp", "xrootd", "s3")


@dataclass
class Remote:
    """A storage behind a proxy, and the directory where its files lie."""

    root: Path
    url: str
    options: dict[str, Any]
    proxy: Proxy

    def place(self, path: str) -> Place:
        return Place(url=self.url, path=path, options=self.options)

    def mend(self) -> None:
        """End the trouble. XRootD's client tries a server again a second after it broke, not at once."""
        self.proxy.mend()
        time.sleep(1.5 if self.url.startswith("root:") else 0)

    def files(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.root)): p.read_bytes() for p in self.root.rglob("*") if p.is_file()}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One of the protocols, whose client does not wait for long between its tries."""
    monkeypatch.setattr(downloads, "PAUSE", 0.01)
    monkeypatch.setattr(sftp_streams, "PAUSE", 0.01)
    quick = {"ConnectionWindow": 2, "ConnectionRetry": 1, "RequestTimeout": 30, "StreamTimeout": 30}
    monkeypatch.setattr(xrootd_backend, "LIMITS", quick | {"StreamErrorWindow": 1})
    for variable, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    name: str = request.param
    if name == "s3":
        pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'pilotage[s3]'")
    return name


@pytest.fixture
def serve(protocol: str, tmp_path: Path) -> Iterator[Callable[[Path], Remote]]:
    """Serve a directory by the protocol, behind a proxy."""
    with ExitStack() as stack:

        def remote(root: Path) -> Remote:
            place = tmp_path / f"of-{root.name}"
            options: dict[str, Any] = {}
            if protocol == "sftp":
                server = stack.enter_context(sftp(place))
                before = stack.enter_context(proxy(int(server.url.rpartition(":")[2])))
                known = Path(server.options["known_hosts"])
                key = known.read_text().split(maxsplit=1)[1]
                known.write_text(f"[127.0.0.1]:{before.port} {key}")
                url = f"{server.url.rpartition(':')[0]}:{before.port}{root}"
                return Remote(root, url, dict(server.options), before)
            place.mkdir()
            if protocol == "xrootd":
                made = stack.enter_context(xrootd(root, place))
                before = stack.enter_context(proxy(made.port))
                return Remote(root, f"root://127.0.0.1:{before.port}/", {}, before)
            if protocol == "http":
                # Its drafts lie on the file system that is filled: what it cannot copy there it leaves.
                for name in ("served", "drafts"):
                    (root / name).mkdir(mode=0o777)
                address = stack.enter_context(nginx(root / "served", root / "drafts"))
                before = stack.enter_context(proxy(_port(address)))
                return Remote(root / "served", f"http://127.0.0.1:{before.port}", {}, before)
            (root / "bucket").mkdir(exist_ok=True)
            keys = ("--auth-key", "key-of-a-test,secret-of-a-test")
            before = stack.enter_context(proxy(_port(stack.enter_context(rclone("s3", root, *keys)))))
            options = {"endpoint_url": f"http://127.0.0.1:{before.port}", "region": "us-east-1"}
            return Remote(root / "bucket", "s3://bucket", options, before)

        yield remote


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def order(source: Place, destination: Place, content: bytes = LARGE, **changes: Any) -> Delivery:
    made = Delivery(
        transfer=1,
        attempt=1,
        file="file",
        size=len(content),
        checksum=f"adler32:{zlib.adler32(content):08x}",
        source=source,
        destination=destination,
        instance="house",
        retried=True,
    )
    return replace(made, **changes)


def deliver(delivery: Delivery) -> None:
    Streaming(lambda: None).deliver(delivery, lambda _: None)


def blamed(delivery: Delivery, why: str | None = None) -> Fault:
    """Who is to blame for a delivery, which must fail (F4)."""
    with pytest.raises(DeliveryFailed, match=why) as failed:
        deliver(delivery)
    return failed.value.fault


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory to serve."""
    made = tmp_path / "served"
    made.mkdir(mode=0o777)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("reset", [True, False], ids=["reset", "ended"])
def test_what_was_read_before_a_source_broke_is_not_read_again(
    serve: Callable[[Path], Remote], folder: Path, tmp_path: Path, reset: bool
) -> None:
    remote, there = serve(folder), tmp_path / "there"
    (remote.root / "file").write_bytes(LARGE)
    delivery = order(remote.place("file"), Place(url=f"file://{there}", path="below/file"))
    remote.proxy.most_down, remote.proxy.reset = HALF, reset
    assert blamed(delivery) == "source"
    (part,) = there.rglob("*.part")
    kept = part.stat().st_size
    assert 0 < kept <= HALF
    assert not (there / "below/file").exists()
    remote.mend()
    deliver(replace(delivery, attempt=2))
    assert remote.proxy.down < len(LARGE) - kept + (1 << 20)
    assert (there / "below/file").read_bytes() == LARGE
    assert list(there.rglob("*.part")) == []


@pytest.mark.slow
def test_a_slow_source_takes_its_time(serve: Callable[[Path], Remote], folder: Path, tmp_path: Path) -> None:
    remote = serve(folder)
    (remote.root / "file").write_bytes(SMALL)
    remote.proxy.rate = 2e6
    deliver(order(remote.place("file"), Place(url=f"file://{tmp_path}/there", path="file"), SMALL))
    assert (tmp_path / "there/file").read_bytes() == SMALL


@pytest.mark.slow
@pytest.mark.parametrize("reset", [True, False], ids=["reset", "ended"])
def test_a_destination_that_breaks_never_shows_the_file(
    serve: Callable[[Path], Remote], folder: Path, tmp_path: Path, reset: bool
) -> None:
    remote, here = serve(folder), tmp_path / "here"
    here.mkdir()
    (here / "file").write_bytes(LARGE)
    delivery = order(Place(url=f"file://{here}", path="file"), remote.place("file"))
    remote.proxy.most_up, remote.proxy.reset = HALF, reset
    assert blamed(delivery) == "destination"
    assert "file" not in remote.files()
    remote.mend()
    deliver(replace(delivery, attempt=2))
    assert remote.files() == {"file": LARGE}


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[Path]:
    """A directory with room for 8 MiB. Skips where none can be made."""
    place = tmp_path / "tight"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0777", "tmpfs", str(place)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_keeps_nothing_and_takes_what_fits(tight: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(LARGE)
    (tmp_path / "small").write_bytes(SMALL)
    here, there = (Place(url=f"file://{root}", path="file") for root in (tmp_path, tight))
    assert blamed(order(here, there), "No space left") == "destination"
    assert list(tight.iterdir()) == []
    deliver(order(replace(here, path="small"), there, SMALL))
    assert (tight / "file").read_bytes() == SMALL


@pytest.mark.slow
def test_a_full_server_keeps_nothing_and_takes_what_fits(
    serve: Callable[[Path], Remote], tight: Path, tmp_path: Path
) -> None:
    remote, here = serve(tight), tmp_path / "here"
    here.mkdir()
    (here / "file").write_bytes(LARGE)
    (here / "small").write_bytes(SMALL)
    assert blamed(order(Place(url=f"file://{here}", path="file"), remote.place("file"))) == "destination"
    assert "file" not in remote.files()
    small = order(Place(url=f"file://{here}", path="small"), remote.place("small"), SMALL, attempt=2)
    deliver(small)
    assert remote.files()["small"] == SMALL


def test_a_directory_that_vanishes_in_mid_transfer_is_made_again(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    (here / "file").write_bytes(LARGE)
    delivery = order(Place(url=f"file://{here}", path="file"), Place(url=f"file://{there}", path="a/file"))

    def vanish(read: int) -> None:
        if read >= HALF:
            shutil.rmtree(there, ignore_errors=True)

    with pytest.raises(DeliveryFailed, match="No such file or directory"):
        Streaming(lambda: None).deliver(delivery, vanish)
    assert not there.exists()
    deliver(replace(delivery, attempt=2))
    assert (there / "a/file").read_bytes() == LARGE


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["source", "destination"])
def test_f4_a_server_that_resets_every_connection_is_to_blame(
    serve: Callable[[Path], Remote], folder: Path, tmp_path: Path, dead: str
) -> None:
    remote, here = serve(folder), Place(url=f"file://{tmp_path}/here", path="file")
    (tmp_path / "here").mkdir()
    (tmp_path / "here/file").write_bytes(SMALL)
    remote.proxy.most_down = 0
    there = remote.place("file")
    ends = (there, here) if dead == "source" else (here, there)
    assert blamed(order(*ends, SMALL[::-1])) == dead


@pytest.mark.slow
def test_f4_a_missing_file_and_other_bytes_are_the_files_failure(
    serve: Callable[[Path], Remote], folder: Path, tmp_path: Path
) -> None:
    remote, there = serve(folder), Place(url=f"file://{tmp_path}/there", path="file")
    assert blamed(order(remote.place("file"), there, SMALL)) == "file"
    (remote.root / "file").write_bytes(SMALL[::-1])
    assert blamed(order(remote.place("file"), there, SMALL)) == "altered"
    assert blamed(order(remote.place("file"), there, SMALL[1:])) == "altered"


def test_f4_links_long_names_and_files_in_the_way_are_the_files_failure(tmp_path: Path) -> None:
    for name in ("here/file", "there/taken"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(SMALL)
    (tmp_path / "here/link").symlink_to(tmp_path / "here/file")
    (tmp_path / "here/folder").symlink_to(tmp_path / "here")
    here, there = (Place(url=f"file://{tmp_path}/{name}", path="file") for name in ("here", "there"))
    for path in ("link", "folder/file", "a" * 300, ".", "../there/taken"):
        assert blamed(order(replace(here, path=path), there, SMALL)) == "file", path
    for path in ("taken/file", "b" * 300, "../file"):
        assert blamed(order(here, replace(there, path=path), SMALL)) == "file", path
