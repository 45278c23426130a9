"""S3 through boto3, on a real server."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from pilotage.adapters.movers.copies import ranged
from pilotage.adapters.movers.storages.backend import PathEntry, StorageOptionError
from pilotage.ports.moving import WrongFileError
from tests.movers.servers import program, rclone, running
from tests.movers.test_http import answer, server
from tests.waiting import PATIENCE

s3 = pytest.importorskip("pilotage.adapters.movers.storages.s3_backend", exc_type=ImportError)
LARGE = bytes(range(256)) * 80_000
"""20 MB: three parts of a multipart upload."""


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """The directory behind a bucket, and the address of its server."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-a-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-a-test")
    (tmp_path / "root/bucket").mkdir(parents=True)
    with rclone("s3", tmp_path / "root", "--auth-key", "key-of-a-test,secret-of-a-test") as address:
        yield tmp_path / "root/bucket", f"http://{address}"


def chunks(content: bytes, fault: Exception | None = None) -> Iterator[bytes]:
    for start in range(0, len(content), 1 << 20):
        yield content[start : start + (1 << 20)]
    if fault:
        raise fault


@pytest.mark.slow
def test_a_large_file_goes_in_parts_and_comes_back(bucket: tuple[Path, str]) -> None:
    root, url = bucket
    backend = s3.S3Backend("s3://bucket/below/", {"endpoint_url": url, "region": "us-east-1"})
    backend.store("data/large", "unused", chunks(LARGE), len(LARGE))
    assert (root / "below/data/large").read_bytes() == LARGE
    with backend.read("data/large") as stream:
        assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == LARGE
    assert list(backend.entries("")) == [("data", PathEntry("folder"))]
    assert list(backend.entries("data")) == [("large", PathEntry("file", len(LARGE)))]


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 3, len(LARGE)])
def test_nothing_is_left_of_a_file_that_is_not_right(bucket: tuple[Path, str], size: int) -> None:
    root, url = bucket
    backend = s3.S3Backend("s3://bucket", {"endpoint_url": url, "region": "us-east-1"})
    with pytest.raises(ValueError, match="wrong checksum"):
        backend.store("file", "unused", chunks(LARGE[:size], ValueError("wrong checksum")), size)
    assert [path for path in root.rglob("*") if path.is_file()] == []
    with pytest.raises(FileNotFoundError):
        backend.entry("file")


@pytest.mark.slow
def test_an_address_opens_one_file_for_who_has_no_key(bucket: tuple[Path, str]) -> None:
    root, url = bucket
    (root / "in").write_bytes(b"hello")
    backend = s3.S3Backend("s3://bucket", {"endpoint_url": url, "region": "us-east-1"})
    reading, writing = backend.grant("in", None), backend.grant("folder/out", 4)
    assert requests.get(reading.url, timeout=PATIENCE).content == b"hello"
    assert requests.put(writing.url, data=b"four", timeout=PATIENCE).ok
    assert (root / "folder/out").read_bytes() == b"four"
    for url in (reading.url.replace("/in?", "/other?"), reading.url.partition("?")[0]):
        assert requests.get(url, timeout=PATIENCE).status_code in (400, 403)
    assert "Signature" not in repr(reading)
    assert backend.grant("out", (5 << 30) + 1) is None


def test_what_a_bucket_does_not_take_is_refused() -> None:
    with pytest.raises(StorageOptionError, match=r"unknown options \['key'\]; known are .*'profile'"):
        s3.S3Backend("s3://bucket", {"key": "x"})
    with pytest.raises(ValueError, match="has no bucket"):
        s3.S3Backend("s3:///path", {})


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=20), st.lists(st.integers(1, 30)))
def test_chunks_are_read_in_any_sizes(pieces: list[bytes], sizes: list[int]) -> None:
    stream, read = s3._ChunkStream(pieces), []
    for size in sizes:
        read.append(stream.read(size))
        assert len(read[-1]) == size or b"".join(read) == b"".join(pieces)
    assert b"".join(read) + stream.read() == b"".join(pieces)
    assert stream.read(5) == b""


@pytest.mark.slow
def test_what_is_too_large_for_one_copy_is_copied_in_parts_by_the_server(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rclone's server copies no parts; this one does."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-a-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-a-test")
    monkeypatch.setattr(s3, "LARGEST_COPY", len(LARGE) - 1)
    monkeypatch.setattr(s3, "COPY_PART", 6 << 20)
    server = [program("moto_server", "pip install moto[s3,server]"), "-H", "127.0.0.1", "-p", str(free_port)]
    calls: list[str] = []
    with running(server, free_port, tmp_path / "moto.log"):
        options = {"endpoint_url": f"http://127.0.0.1:{free_port}", "region": "us-east-1"}
        north, south = (s3.S3Backend(f"s3://{name}", options) for name in ("north", "south"))
        for backend in (north, south):
            backend._open().create_bucket(Bucket=backend._bucket)
        south._open().meta.events.register("before-call.s3", lambda model, **_: calls.append(model.name))
        north.store("large", "unused", chunks(LARGE), len(LARGE))
        north.store("small", "unused", chunks(b"small"), 5)
        for path, size in (("large", len(LARGE)), ("small", 5)):
            south.fetch(north, path, f"there/{path}", size, lambda _: None)
        with south.read("there/large") as stream:
            assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == LARGE
    assert calls.count("UploadPartCopy") == 4
    assert (calls.count("CopyObject"), calls.count("PutObject"), calls.count("UploadPart")) == (1, 0, 0)


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files of 20 MB read by several requests, however fast one is."""
    values = {"LARGE": 1 << 20, "SAMPLE": 1 << 20, "BLOCK": 1 << 19, "PAYS": 0.0}
    values |= dict.fromkeys(("FAST", "LOST"), float("inf"))
    for name, value in values.items():
        monkeypatch.setattr(ranged, name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("start", [0, 1_234_567])
def test_a_large_object_comes_by_several_requests(bucket: tuple[Path, str], start: int) -> None:
    root, url = bucket
    (root / "large").write_bytes(LARGE)
    backend = s3.S3Backend("s3://bucket", {"endpoint_url": url, "region": "us-east-1"})
    with backend.read_ranges("large", start, len(LARGE)) as stream:
        assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == LARGE[start:]


@pytest.mark.usefixtures("small_is_large")
def test_an_object_that_changes_meanwhile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-a-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-a-test")

    def respond(request: BaseHTTPRequestHandler) -> None:
        if request.headers["If-Match"]:
            answer(request, 412)
        else:
            part = f"bytes 0-{ranged.SAMPLE - 1}/{len(LARGE)}"
            answer(request, 206, LARGE[: ranged.SAMPLE], Content_Range=part, ETag='"one"')

    with server(respond) as url:
        backend = s3.S3Backend("s3://bucket", {"endpoint_url": url, "region": "us-east-1"})
        with (
            backend.read_ranges("large", 0, len(LARGE)) as stream,
            pytest.raises(WrongFileError, match="changed while it was read"),
        ):
            list(iter(lambda: stream.read(1 << 20), b""))


@pytest.mark.slow
def test_parts_of_a_large_upload_go_together(
    bucket: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, url = bucket
    monkeypatch.setattr(s3, "LARGE", 1 << 20)
    backend = s3.S3Backend("s3://bucket", {"endpoint_url": url, "region": "us-east-1"})
    backend.store("large", "unused", chunks(LARGE), len(LARGE))
    assert (root / "large").read_bytes() == LARGE
    with pytest.raises(ValueError, match="wrong checksum"):
        backend.store("other", "unused", chunks(LARGE, ValueError("wrong checksum")), len(LARGE))
    assert not (root / "other").exists()
    assert ranged.spare._available == ranged.SPARE


def test_a_server_that_knows_no_checksums_takes_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-a-test")
    refused: list[str] = []

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.rfile.read(int(request.headers.get("Content-Length") or 0))
        headers = [f"{name}: {value}".lower() for name, value in request.headers.items()]
        refused.extend(
            line for line in headers if "checksum" in line or "trailer" in line or "chunked" in line
        )
        answer(request, 501 if refused else 200, ETag='"x"')

    with server(respond) as url:
        backend = s3.S3Backend("s3://bucket/x", {"endpoint_url": url, "region": "us-east-1"})
        backend.store("a.dat", ".part", iter([b"hello"]), 5)
    assert not refused
