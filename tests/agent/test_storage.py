"""Storages as pilots open them: folders without a way out, and a real WebDAV-like server."""

import gzip
import io
import threading
import zlib
from collections.abc import Iterator
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from pilotage.adapters.movers.contract import ODD_NAMES
from pilotage.agent.files import storage
from pilotage.agent.files.file_access import StorageRoutes
from pilotage.agent.files.storage import open_storage
from pilotage.agent.files.transfer import discard, fetch, store
from pilotage.agent.files.web import Web
from pilotage.agent.files.web_addresses import server_of
from pilotage.agent.payload.attempt import Attempt, AttemptFailedError, InputLostError
from pilotage.agent.wire import JobInput, JobOrder, Work

WAYS = StorageRoutes(None)  # type: ignore[arg-type]  # no storage here asks


class WebDav(BaseHTTPRequestHandler):
    """PUT needs its folder, as WebDAV wants it; ``/moved`` sends GET and PUT on."""

    files: dict[str, bytes]
    folders: set[str]
    seen: list[tuple[str, str, str | None]]
    cut = False
    encoding = ""

    def _answer(self, status: int, data: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if self.cut else data)

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.command, self.path, self.headers.get("X-Key")))
        if self.path.startswith("/moved"):
            self._answer(307, Location=self.path.replace("/moved", "/data"))
        elif self.command == "PUT":
            known = self.path.rpartition("/")[0] in self.folders
            if known:
                self.files[self.path] = body
            self._answer(201 if known else 409)
        elif self.command == "MKCOL":
            is_new = self.path not in self.folders
            self.folders.add(self.path)
            self._answer(201 if is_new else 405)
        elif self.command == "DELETE":
            for path in [path for path in self.files if path.startswith(self.path + "/")]:
                del self.files[path]
            self._answer(204)
        elif self.path in self.files:
            data, encoding = self.files[self.path], self.encoding
            packed = gzip.compress(data) if encoding == "gzip" else data
            packed = zlib.compress(data) if encoding == "deflate" else packed
            self._answer(200, packed, **({"Content-Encoding": encoding} if encoding else {}))
        else:
            self._answer(404)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_MKCOL = _serve  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, type[WebDav]]]:
    handler = type("Handler", (WebDav,), {"files": {}, "folders": {"/data"}, "seen": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}", handler
        listening.shutdown()
        thread.join()


def attempt(url: str, **options: Any) -> Attempt:
    work = Work(task=1, command=("true",), storage_url=url, storage_options=options)
    return Attempt(work, JobOrder(1, 1, ".scratch/house/1.1"))


@pytest.mark.parametrize("folder", ["data", "moved"])
def test_files_come_and_go_over_http(server: Any, tmp_path: Path, folder: str) -> None:
    url, handler = server
    one = attempt(f"{url}/{folder}", client_kwargs={"headers": {"X-Key": "open"}})
    handler.files["/data/in:1.txt"] = b"hello"
    fetch(WAYS, one, JobInput("in:1.txt", 5, "adler32:062c0215"), tmp_path / "copy", lambda: False)
    assert (tmp_path / "copy").read_text() == "hello"
    (tmp_path / "out").write_bytes(b"x" * 100_000)
    output = store(WAYS, one, "out", tmp_path, lambda: False)
    assert (output.name, output.size) == ("out", 100_000)
    assert handler.files["/data/.scratch/house/1.1/out"] == b"x" * 100_000
    assert {key for _, _, key in handler.seen} == {"open"}
    if folder == "data":
        discard(WAYS, one)
        assert list(handler.files) == ["/data/in:1.txt"]


def test_what_is_not_there_is_lost_and_not_tried_again(server: Any, tmp_path: Path) -> None:
    url, handler = server
    with pytest.raises(InputLostError, match="not at the queue's storage"):
        fetch(WAYS, attempt(f"{url}/data"), JobInput("none", 5), tmp_path / "copy", lambda: False)
    assert len(handler.seen) == 1


def test_an_answer_that_is_cut_is_tried_again_and_fails(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, handler = server
    monkeypatch.setattr("pilotage.agent.files.transfer.time.sleep", lambda _: None)
    handler.files["/data/in"], handler.cut = b"hello!", True
    with pytest.raises(AttemptFailedError, match="input in: "):
        fetch(WAYS, attempt(f"{url}/data"), JobInput("in", 6), tmp_path / "copy", lambda: False)
    assert len(handler.seen) == 3


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_file_that_is_compressed_on_the_way_is_read_as_the_file(server: Any, encoding: str) -> None:
    url, web_dav = server
    content = bytes(range(256)) * 50_000
    web_dav.files |= {"/x/y.csv": content, "/x/y.csv.gz": gzip.compress(content)}
    web_dav.encoding = encoding
    there = storage.HttpServer(url, Web({}))
    with there.read("x/y.csv") as stream:
        assert b"".join(iter(lambda: stream.read(1000), b"")) == content
    assert there.write("x/y.csv", io.BytesIO(b"abc")) is None, "the size of what was sent is another"
    web_dav.encoding = ""
    with there.read("x/y.csv.gz") as stream:
        assert gzip.decompress(stream.read()) == content


def test_compressed_content_that_is_unknown_or_cut_is_an_error(server: Any) -> None:
    url, web_dav = server
    web_dav.files["/x/y.csv"] = b"abc" * 1000
    web_dav.encoding = "br"
    with pytest.raises(OSError, match=r"x/y.csv comes compressed \(br\), though asked not to"):
        storage.HttpServer(url, Web({})).read("x/y.csv")
    web_dav.encoding, web_dav.cut = "gzip", True
    with pytest.raises((OSError, HTTPException)), storage.HttpServer(url, Web({})).read("x/y.csv") as stream:
        stream.read()


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("https://SE.lab.example/a", "https://se.lab.example:443/b?x=1#y", True),
        ("https://se.lab.example./a", "https://se.lab.example/", True),
        ("http://se.lab.example:80", "http://se.lab.example/data", True),
        ("http://se.lab.example/a", "https://se.lab.example/a", False),
        ("https://se.lab.example/a", "https://se.lab.example:8443/a", False),
        ("root://se.lab.example//a", "root://SE.lab.example:1094//a", True),
        ("https://[::1]/a", "https://[::1]:443/a", True),
    ],
)
def test_equal_servers_are_equal_however_they_are_written(one: str, other: str, is_same: bool) -> None:
    assert (server_of(one) == server_of(other)) is is_same


@pytest.mark.parametrize("url", ["s3://bucket/x", "root://host//x", "simplecache::http://host"])
def test_other_storages_are_refused_by_name(tmp_path: Path, url: str) -> None:
    scheme = url.partition("://")[0]
    with pytest.raises(AttemptFailedError, match=f"{scheme}:// is no address that can be opened as it is"):
        fetch(WAYS, attempt(url), JobInput("in", 6), tmp_path / "copy", lambda: False)


@pytest.fixture(params=["openat2", "walk"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A storage with links that lead out of it, on a kernel with openat2 and on one without."""
    if request.param == "walk":
        monkeypatch.setattr(storage, "_OPENAT2", 9999)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "storage/.scratch").symlink_to(tmp_path / "outside")
    (tmp_path / "storage/file").symlink_to(tmp_path / "outside/secret")
    return tmp_path / "storage"


@pytest.mark.parametrize("name", ["file", "folder/secret"])
def test_links_do_not_lead_a_reader_out_of_a_storage(folder: Path, name: str) -> None:
    with pytest.raises(OSError, match=name):
        open_storage(str(folder), {}).read(name)


def test_links_do_not_lead_a_writer_or_a_removal_out_of_a_storage(folder: Path) -> None:
    opened = open_storage(f"file://{folder}", {})
    for path in (".scratch/house/1.1/out", "file", "folder/new"):
        with pytest.raises(OSError):  # noqa: PT011
            opened.write(path, io.BytesIO(b"overwritten"))
    with pytest.raises(OSError):  # noqa: PT011
        opened.remove("folder/secret")
    assert [path.name for path in (folder.parent / "outside").iterdir()] == ["secret"]
    assert (folder.parent / "outside/secret").read_text() == "secret"


def test_a_folder_keeps_its_files(tmp_path: Path) -> None:
    opened = open_storage(f"file://{tmp_path}/new", {})
    assert opened.write(".scratch/house/1.1/out", io.BytesIO(b"five!")) == 5
    with opened.read(".scratch/house/1.1/out") as file:
        assert file.read() == b"five!"
    opened.remove(".scratch/house/1.1")
    opened.remove(".scratch/house/1.1")
    assert list((tmp_path / "new/.scratch/house").iterdir()) == []
    with pytest.raises(FileNotFoundError):
        opened.read("none")


@pytest.mark.parametrize("kind", ["folder", "web"])
def test_storages_hold_odd_names(server: tuple[str, type[WebDav]], tmp_path: Path, kind: str) -> None:
    url, handler = server
    handler.folders.add("/data/odd")
    storage = open_storage(f"{url}/data" if kind == "web" else f"file://{tmp_path}", {})
    for name in ODD_NAMES:
        storage.write(f"odd/{name}", io.BytesIO(name.encode()))
        with storage.read(f"odd/{name}") as stream:
            assert stream.read() == name.encode()
    if kind == "web":
        assert {unquote(path).removeprefix("/data/odd/") for path in handler.files} == {*ODD_NAMES}
    else:
        assert all((tmp_path / "odd" / name).is_file() for name in ODD_NAMES)
