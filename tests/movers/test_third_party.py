"""Third-party copies by HTTP: between real servers, and with one that makes trouble."""

import logging
import threading
import zlib
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pilotage.adapters.movers.contract import violations
from pilotage.adapters.movers.copies.checksums import digest
from pilotage.adapters.movers.copies.copying import THIRD_PARTY
from pilotage.adapters.movers.copies.fault_attribution import blamed
from pilotage.adapters.movers.copies.third_party import fetched
from pilotage.adapters.movers.http.http_backend import HttpBackend
from pilotage.adapters.movers.storages.backend_calls import reason
from pilotage.adapters.movers.storages.local import LocalBackend
from pilotage.adapters.movers.streaming import Streaming
from pilotage.ports.moving import Delivered, Delivery, DeliveryFailed, Place, StorageError
from tests.movers.servers import directory_rig, nginx, rclone
from tests.movers.xrootd import xrootd

CONTENT = b"content of a file" * 1000
CHECKSUM = f"adler32:{zlib.adler32(CONTENT):08x}"
TOKEN = "token-of-the-source"


def delivery(source: str, destination: str, checksum: str = CHECKSUM) -> Delivery:
    return Delivery(
        transfer=1,
        attempt=1,
        file="file",
        size=len(CONTENT),
        checksum=checksum,
        source=Place(url=source, path="file"),
        destination=Place(url=destination, path="made/file"),
    )


def ignored(_: int) -> None:
    """Progress that nobody asks for."""


def mover() -> Streaming:
    return Streaming(lambda: None)


@pytest.fixture
def no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written by this machine."""

    def store(*_: object) -> None:
        raise AssertionError("the bytes pass through this machine")

    monkeypatch.setattr(HttpBackend, "store", store)


@pytest.mark.slow
def test_third_party_copies_keep_the_contract(roots: dict[str, Path], tmp_path: Path) -> None:
    with xrootd(roots["north"], tmp_path / "a") as north, xrootd(roots["south"], tmp_path / "b") as south:
        urls = {"north": north.http, "south": south.http}
        assert violations(Streaming, replace(directory_rig(roots, urls), not_held=r"\?| $")) == []


@pytest.mark.slow
@pytest.mark.parametrize("checksum", [CHECKSUM, "", f"md5:{'0' * 32}"])
def test_two_servers_copy_without_us(
    roots: dict[str, Path], tmp_path: Path, checksum: str, no_streams: None
) -> None:
    """One whose checksum its server does not compute is read once, and is wrong here."""
    (roots["north"] / "file").write_bytes(CONTENT)
    with xrootd(roots["north"], tmp_path / "a") as north, xrootd(roots["south"], tmp_path / "b") as south:
        seen: list[int] = []
        order = delivery(north.http, south.http, checksum)
        if checksum.startswith("md5"):
            with pytest.raises(DeliveryFailed, match="must have md5:0000"):
                mover().deliver(order, seen.append)
        else:
            found = mover().deliver(order, seen.append)
            assert (found.checksum, found.way) == (CHECKSUM, THIRD_PARTY)
            assert (roots["south"] / "made/file").read_bytes() == CONTENT
        assert seen[-1] == len(CONTENT)
    wanted = [] if checksum.startswith("md5") else ["file"]
    assert [path.name for path in (roots["south"] / "made").iterdir()] == wanted


@pytest.mark.slow
def test_within_one_server_and_where_one_of_two_can_no_bytes_pass_through(
    roots: dict[str, Path], tmp_path: Path, no_streams: None
) -> None:
    """nginx copies within itself only; XRootD takes from it and gives to it."""
    (roots["north"] / "file").write_bytes(CONTENT)
    (tmp_path / "nginx").mkdir()
    with nginx(tmp_path, tmp_path / "nginx") as plain, xrootd(roots["south"], tmp_path / "b") as south:
        for source, target in (
            (f"http://{plain}/north", f"http://{plain}/inside"),
            (f"http://{plain}/north", south.http),
            (f"{south.http}/made", f"http://{plain}/given"),
        ):
            assert mover().deliver(delivery(source, target), ignored).checksum == CHECKSUM
    assert (tmp_path / "given/made/file").read_bytes() == CONTENT


@pytest.mark.slow
def test_servers_that_cannot_are_streamed_between(roots: dict[str, Path], tmp_path: Path) -> None:
    (roots["north"] / "file").write_bytes(CONTENT)
    (tmp_path / "nginx").mkdir()
    with rclone("webdav", roots["south"]) as south, nginx(roots["north"], tmp_path / "nginx") as north:
        found = mover().deliver(delivery(f"http://{north}", f"http://{south}"), ignored)
    assert found.checksum == CHECKSUM
    assert (roots["south"] / "made/file").read_bytes() == CONTENT


class Troubled(BaseHTTPRequestHandler):
    """A server that answers COPY as it is told to, and keeps what it was asked; nothing is there."""

    def do_COPY(self) -> None:
        self.server.asked.append(dict(self.headers))  # type: ignore[attr-defined]
        status, said = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(said)

    def do_MKCOL(self) -> None:
        self.send_response(405 if self.command == "MKCOL" else 404)
        self.end_headers()

    do_HEAD = do_PROPFIND = do_DELETE = do_MKCOL  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def troubled() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Troubled) as server:
        server.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


MARKER = b"Perf Marker\n Stripe Index: 0\n Stripe Bytes Transferred: 7\n Total Stripe Count: 1\nEnd\n"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (MARKER + b"failure: no space left\n", "the copy failed: no space left"),
        (MARKER + b"aborted: expired token\n", "the copy failed: expired token"),
        (MARKER, "the server did not confirm it"),
        (b"", "the server did not confirm it"),
    ],
)
def test_a_copy_that_fails_says_why(troubled: ThreadingHTTPServer, said: bytes, error: str) -> None:
    troubled.answer = (202, said)  # type: ignore[attr-defined]
    source = HttpBackend("http://source.example", {})
    target = HttpBackend(f"http://127.0.0.1:{troubled.server_port}", {})
    seen: list[int] = []
    with pytest.raises(StorageError, match=error):
        target.fetch(source, "file", "draft", 7, seen.append)
    assert seen == ([7] if said else [])


def test_the_servers_are_given_each_other_s_token_and_nobody_else_is(
    troubled: ThreadingHTTPServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    troubled.answer = (202, b"failure: refused\n")  # type: ignore[attr-defined]
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    options = {"token_file": str(tmp_path / "token")}
    order = delivery("http://source.invalid", f"http://127.0.0.1:{troubled.server_port}")
    order = replace(order, source=replace(order.source, options=options))
    with caplog.at_level(logging.DEBUG), pytest.raises(DeliveryFailed) as failed:
        mover().deliver(order, ignored)
    (asked,) = troubled.asked  # type: ignore[attr-defined]
    assert asked["Source"] == "http://source.invalid/file"
    assert asked["TransferHeaderAuthorization"] == f"Bearer {TOKEN}"
    assert "Authorization" not in asked
    assert TOKEN not in f"{failed.value}{failed.value!r}{caplog.text}"
    assert "is streamed" in caplog.text


class Fetching(LocalBackend):
    """A storage that tries to fetch files by itself, and fails."""

    fault: OSError

    def fetch(self, *_: object) -> None:
        raise self.fault

    def describe(self, path: str, kind: str) -> Delivered | None:
        """Nothing: no file ever came."""


@pytest.mark.parametrize(
    ("fault", "level"),
    [(FileNotFoundError("no such file"), logging.INFO), (ConnectionError("nobody answers"), logging.WARNING)],
)
def test_a_missing_file_is_no_trouble_of_the_storages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: OSError, level: int
) -> None:
    source, target = LocalBackend(f"file://{tmp_path}/a", {}), Fetching(f"file://{tmp_path}/b", {})
    target.fault = fault
    with caplog.at_level(logging.INFO):
        assert (
            fetched(source, target, delivery("file:///a", "file:///b"), ignored)
            == f"the storages' own copy failed: {reason(fault)}"
        )
    assert [(one.levelno, "is streamed" in one.message) for one in caplog.records] == [(level, True)]


@pytest.mark.parametrize(
    ("header", "kind", "found"),
    [
        ("adler32=03da0195", "adler32", "adler32:03da0195"),
        ("ADLER32=3DA0195", "adler32", "adler32:03da0195"),
        ("md5=1B2M2Y8AsgTpgAmY7PhCfg==", "md5", "md5:d41d8cd98f00b204e9800998ecf8427e"),
        ("crc32c=x,md5=d41d8cd98f00b204e9800998ecf8427e", "md5", "md5:d41d8cd98f00b204e9800998ecf8427e"),
        ("md5=nonsense!", "md5", ""),
        ("md5=", "md5", ""),
        ("adler32=03da0195", "sha256", ""),
        ("", "adler32", ""),
    ],
)
def test_checksums_of_web_servers_are_read(header: str, kind: str, found: str) -> None:
    assert digest(header, kind) == found


class Told(LocalBackend):
    """A storage that fetches by itself, and says of what came what it is told to."""

    content, told = CONTENT, Delivered(size=0, checksum="adler32:00000001")

    def fetch(self, source: object, path: str, draft: str, size: int, progress: object) -> None:
        self.store(draft, ".part", iter([self.content]), len(self.content))

    def describe(self, path: str, kind: str) -> Delivered | None:
        return self.told


def test_a_size_of_0_right_after_a_write_is_no_fact(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_bytes(CONTENT)
    source, target = LocalBackend(f"file://{tmp_path}/a", {}), Told(f"file://{tmp_path}/b", {})
    found = fetched(source, target, delivery("file:///a", "file:///b"), ignored)
    assert isinstance(found, Delivered)
    assert (found.size, found.checksum) == (len(CONTENT), CHECKSUM)
    target.content = b""
    with pytest.raises(DeliveryFailed, match="its storage lost what was written") as failed:
        fetched(source, target, delivery("file:///a", "file:///b"), ignored)
    assert blamed(failed.value) == "destination"
