"""Storages are asked for their free space, each in its server's own way (B18)."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pilotage.adapters.movers.processes import processes
from pilotage.adapters.movers.processes.processes import WorkerProcesses
from pilotage.adapters.movers.streaming import Streaming
from pilotage.model.records.federation import Storage
from pilotage.ports.moving import Space, StorageError

from .servers import nginx, rclone
from .sftp import sftp
from .test_contract import S3_ENVIRONMENT
from .xrootd import xrootd

NEAR = 4 << 30
"""Bytes that others on this machine may write or delete between two looks."""


def space(url: str, **options: Any) -> Space | None:
    return Streaming(lambda: None).space(Storage(name="disk", site="here", url=url, options=options))


def is_as_the_disk(found: Space | None, place: Path) -> bool:
    own = shutil.disk_usage(place)
    return found is not None and abs(found.free - own.free) < NEAR and found.total == own.total


def test_b18_a_directory_tells_the_space_of_its_file_system(tmp_path: Path) -> None:
    assert is_as_the_disk(space(f"file://{tmp_path}"), tmp_path)
    assert is_as_the_disk(space(f"file://{tmp_path}/not/made/yet"), tmp_path), "it is made when it is written"
    held_back = os.statvfs(tmp_path)
    found = space(f"file://{tmp_path}")
    assert found is not None
    assert found.free <= (held_back.f_bavail + 2**20) * held_back.f_frsize, "not what is the superuser's"


def test_b18_sftp_tells_its_space(tmp_path: Path) -> None:
    pytest.importorskip("asyncssh", reason="asyncssh is not installed: pip install 'pilotage[sftp]'")
    with sftp(tmp_path / "ssh") as server:
        assert is_as_the_disk(space(f"{server.url}{tmp_path}", **server.options), tmp_path)
        assert space(f"{server.url}{tmp_path}/not/made/yet", **server.options) is None


def test_b18_xrootd_tells_its_space(tmp_path: Path, roots: dict[str, Path]) -> None:
    pytest.importorskip("XRootD", reason="xrootd is not installed: pip install 'pilotage[xrootd]'")
    with xrootd(roots["north"], tmp_path / "xrootd") as server:
        assert is_as_the_disk(space(server.url), tmp_path)
        assert is_as_the_disk(space(f"{server.url}/not/made/yet"), tmp_path)


def test_b18_servers_without_quota_tell_none(
    tmp_path: Path, roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with nginx(roots["north"], tmp_path) as address:
        assert space(f"http://{address}") is None, "a web server without WebDAV's listings"
    with rclone("webdav", roots["north"]) as address:
        assert space(f"http://{address}") is None, "WebDAV without quota"
        assert space(f"http://{address}/not/made/yet") is None
    assert space("memory://anywhere") is None
    pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'pilotage[s3]'")
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with rclone("s3", tmp_path, "--auth-key", "key-of-a-test,secret-of-a-test") as address:
        assert space("s3://north", endpoint_url=f"http://{address}", region="us-east-1") is None


class _Quotas(BaseHTTPRequestHandler):
    """WebDAV with the quota of RFC 4331, and a bucket as Ceph's gateway tells of it."""

    properties = "<d:quota-available-bytes>40000000000</d:quota-available-bytes>"
    headers_of_bucket: ClassVar[dict[str, str]] = {}

    def do_PROPFIND(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        assert b"quota-available-bytes" in asked
        status = "<d:status>HTTP/1.1 200 OK</d:status>"
        found = f"<d:propstat><d:prop>{self.properties}</d:prop>{status}</d:propstat>"
        response = f"<d:response><d:href>{self.path}</d:href>{found}</d:response>"
        self._answer(207, f'<d:multistatus xmlns:d="DAV:">{response}</d:multistatus>'.encode(), {})

    def do_HEAD(self) -> None:
        self._answer(200, b"", self.headers_of_bucket)

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ("<d:quota-available-bytes>40000000000</d:quota-available-bytes>", Space(free=40_000_000_000)),
        (
            "<d:quota-available-bytes>7</d:quota-available-bytes><d:quota-used-bytes>3</d:quota-used-bytes>",
            Space(free=7, total=10),
        ),
        ("<d:quota-available-bytes>-3</d:quota-available-bytes>", None),
        ("<d:quota-available-bytes/>", None),
        ("", None),
    ],
)
def test_b18_webdav_tells_its_quota(properties: str, found: Space | None) -> None:
    handler = type("Handler", (_Quotas,), {"properties": properties})
    with serving(handler) as url:
        assert space(f"{url}/data") == found


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (
            {"X-RGW-Quota-Bucket-Size": "1000", "X-RGW-Bytes-Used": "400"},
            Space(free=600, total=1000),
        ),
        ({"X-RGW-Quota-Bucket-Size": "1000", "X-RGW-Bytes-Used": "4000"}, Space(free=0, total=1000)),
        ({"X-RGW-Quota-Bucket-Size": "-1", "X-RGW-Bytes-Used": "400"}, None),
    ],
)
def test_b18_a_bucket_tells_its_quota(
    headers: dict[str, str], found: Space | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'pilotage[s3]'")
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    handler = type("Handler", (_Quotas,), {"headers_of_bucket": headers})
    with serving(handler) as url:
        assert space("s3://bucket/prefix", endpoint_url=url, region="us-east-1") == found


class _Silent(BaseHTTPRequestHandler):
    ended = threading.Event()

    def do_PROPFIND(self) -> None:
        self.ended.wait(60)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_b18_a_storage_that_hangs_is_given_up_and_others_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "SPACE_LIMIT", 1.0)
    mover = WorkerProcesses("streaming", Streaming(lambda: None), lambda: None)
    try:
        with serving(_Silent) as url:
            begun = time.monotonic()
            with pytest.raises((TimeoutError, StorageError)):
                mover.space(Storage(name="hangs", site="here", url=url))
            assert time.monotonic() - begun < 30
            _Silent.ended.set()
        assert is_as_the_disk(
            mover.space(Storage(name="disk", site="here", url=f"file://{tmp_path}")), tmp_path
        )
    finally:
        mover.close()
