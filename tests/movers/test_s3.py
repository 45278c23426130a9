"""S3 through boto3, on a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.movers.backend import PathEntry, StorageOptionError
from tests.movers.servers import rclone

s3 = pytest.importorskip("pilotage.movers.s3_backend", exc_type=ImportError)
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
