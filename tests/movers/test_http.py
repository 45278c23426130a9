"""Web servers that cut, redirect, lie and wait: what a mover makes of them."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from urllib3.exceptions import HTTPError

from pilotage.adapters.movers.http import downloads, http_bodies
from pilotage.adapters.movers.http.http_backend import HttpBackend
from pilotage.adapters.movers.http.listings import from_index, from_multistatus
from pilotage.adapters.movers.storages.backend import PathEntry, StorageOptionError
from pilotage.agent.files.web_addresses import canonical
from pilotage.ports.moving import StorageError, WrongFileError

CONTENT = bytes(range(256)) * 1000

Respond = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def server(respond: Respond) -> Iterator[str]:
    """A web server whose answers are made by a function; its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __getattr__(self, name: str) -> object:
            if name.startswith("do_"):
                return lambda: respond(self)
            raise AttributeError(name)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{httpd.server_address[1]}"
        finally:
            httpd.shutdown()
            thread.join()


def answer(request: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    request.send_response(status)
    for name, value in {"Content_Length": str(len(body)), **headers}.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


class Cutting:
    """Answers with so many bytes of the file at a time, and closes the connection."""

    def __init__(self, piece: int, *versions: str, ranges: bool = True) -> None:
        self.piece, self.versions, self.ranges = piece, versions, ranges
        self.asked: list[str | None] = []

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        version = self.versions[min(len(self.asked), len(self.versions) - 1)]
        self.asked.append(asked := request.headers["Range"])
        same = request.headers["If-Range"] in (None, version)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and same and self.ranges else 0
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(CONTENT) - start))
        request.send_header("ETag", version)
        if self.ranges:
            request.send_header("Accept-Ranges", "bytes")
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        request.end_headers()
        request.wfile.write(CONTENT[start : start + self.piece])
        request.close_connection = True


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "PAUSE", 0)


def read(backend: HttpBackend, path: str = "file") -> bytes:
    with backend.read(path) as stream:
        return b"".join(iter(lambda: stream.read(50_000), b""))


def test_a_download_that_is_cut_goes_on_from_there() -> None:
    cutting = Cutting(100_000, '"one"')
    with server(cutting) as url:
        assert read(HttpBackend(url, {})) == CONTENT
    assert cutting.asked == [None, "bytes=100000-", "bytes=200000-"]


@pytest.mark.parametrize(
    "cutting",
    [
        pytest.param(Cutting(100_000, '"one"', '"two"'), id="the file changed"),
        pytest.param(Cutting(100_000, '"one"', ranges=False), id="the server gives no ranges"),
        pytest.param(Cutting(100_000, 'W/"one"'), id="versions are not told apart"),
        pytest.param(Cutting(0, '"one"'), id="no byte ever comes"),
    ],
)
def test_a_download_that_cannot_go_on_fails(cutting: Cutting) -> None:
    with server(cutting) as url, pytest.raises(HTTPError):
        read(HttpBackend(url, {}))
    assert len(cutting.asked) <= 1 + downloads.MOST_RESUMES


def test_our_headers_go_to_no_other_server(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    seen: list[tuple[str | None, str | None]] = []

    def other(request: BaseHTTPRequestHandler) -> None:
        seen.append((request.headers["Authorization"], request.headers["X-Key"]))
        answer(request, 200, CONTENT)

    with server(other) as elsewhere:

        def here(request: BaseHTTPRequestHandler) -> None:
            seen.append((request.headers["Authorization"], request.headers["X-Key"]))
            answer(request, 307, Location=f"{elsewhere}/file")

        with server(here) as url:
            backend = HttpBackend(url, {"token_file": str(token), "headers": {"X-Key": "key"}})
            assert read(backend) == CONTENT
            token.write_text("renewed")
            read(backend)
    assert seen == [("Bearer secret", "key"), (None, None), ("Bearer renewed", "key"), (None, None)]


@pytest.mark.parametrize(
    ("location", "said"),
    [("file:///etc/passwd", "sent on to file:///etc/passwd"), ("/file", "sent on more than 5 times")],
)
def test_a_redirection_leads_nowhere_else(location: str, said: str) -> None:
    redirecting = server(lambda request: answer(request, 302, Location=location))
    with redirecting as url, pytest.raises(StorageError, match=said):
        read(HttpBackend(url, {}))


@pytest.mark.parametrize(
    ("status", "error"), [(404, FileNotFoundError), (410, FileNotFoundError), (500, StorageError)]
)
def test_what_a_server_refuses_is_told(status: int, error: type[Exception]) -> None:
    with (
        server(lambda request: answer(request, status)) as url,
        pytest.raises(error, match=f"GET .*/file: {status}"),
    ):
        read(HttpBackend(url, {}))


def test_a_listing_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_bodies, "LARGEST_LISTING", 1000)
    talkative = server(lambda request: answer(request, 207, b"x" * 2000))
    with talkative as url, pytest.raises(StorageError, match="its listing is longer than"):
        HttpBackend(url, {}).entry("file")


def test_a_file_is_never_read_as_a_listing() -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        if request.command == "PROPFIND":
            request.rfile.read(int(request.headers["Content-Length"]))
            answer(request, 405)
        else:
            answer(request, 200, CONTENT, Content_Type="application/octet-stream")

    with server(respond) as url, pytest.raises(StorageError, match="is no listing"):
        list(HttpBackend(url, {}).entries("file"))


def test_a_server_that_hides_its_sizes_has_files_of_unknown_size() -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.rfile.read(int(request.headers["Content-Length"] or 0))
        request.send_response(501 if request.command == "PROPFIND" else 200)
        request.send_header("Connection", "close")
        request.end_headers()
        request.close_connection = True

    with server(respond) as url:
        assert HttpBackend(url, {}).entry("file") == PathEntry("file", None)


MULTISTATUS = b"""<?xml version="1.0"?><d:multistatus xmlns:d="DAV:">
<d:response><d:href>http://host/a%20b/</d:href><d:propstat><d:prop><d:resourcetype><d:collection/></d:resourcetype>
</d:prop></d:propstat></d:response>
<d:response><d:href>/a%20b/x%25y</d:href><d:propstat><d:prop><d:getcontentlength>12</d:getcontentlength>
<d:resourcetype/></d:prop></d:propstat></d:response>
<d:response><d:href>/a b/sub/</d:href><d:propstat><d:prop><d:resourcetype><d:collection/></d:resourcetype>
</d:prop></d:propstat></d:response>
<d:response><d:href>/elsewhere/z</d:href></d:response>
<d:response><d:href>/a%20b/sub/deeper</d:href></d:response>
</d:multistatus>"""


def test_multistatus_documents_are_read() -> None:
    found = list(from_multistatus(MULTISTATUS, "/a%20b/"))
    assert found == [("", PathEntry("folder")), ("x%y", PathEntry("file", 12)), ("sub", PathEntry("folder"))]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b'<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>', "declares a document type"),
        (b"<html><body>", "cannot be read"),
    ],
)
def test_documents_that_are_no_multistatus_are_refused(document: bytes, said: str) -> None:
    with pytest.raises(StorageError, match=said):
        list(from_multistatus(document, "/"))


def test_index_pages_are_read() -> None:
    page = b"""<a href="../">up</a> <a href="?C=N;O=D">Name</a> <a href="file%201">f</a> <a href="sub/">s</a>
    <a href="/data/other">o</a> <a href="http://host/elsewhere/x">x</a> <a>no link</a>
    <a href="sub/deeper">d</a>"""
    found = sorted(from_index(page, "/data/"), key=lambda pair: pair[0])
    assert found == [
        ("file 1", PathEntry("file")),
        ("other", PathEntry("file")),
        ("sub", PathEntry("folder")),
    ]


def test_a_new_name_is_told_in_the_one_form_of_its_server() -> None:
    """Some servers compare it with the host that the request names, letter by letter."""
    seen: list[tuple[str, str | None, str | None]] = []

    def respond(request: BaseHTTPRequestHandler) -> None:
        seen.append((request.command, request.headers["Host"], request.headers["Destination"]))
        answer(request, 201)

    with server(respond) as url:
        port = url.rpartition(":")[2]
        HttpBackend(f"http://LocalHost.:{port}//data", {}).rename("a", "b c")
    assert seen[-1] == ("MOVE", f"localhost:{port}", f"http://localhost:{port}//data/b%20c")
    assert canonical("https://SE.lab.example:443//a?x=%2F#Y") == "https://se.lab.example//a?x=%2F#Y"
    assert canonical("https://[2001:DB8::1]:8443/a") == "https://[2001:db8::1]:8443/a"


def test_an_option_that_it_does_not_take_is_refused() -> None:
    with pytest.raises(
        StorageOptionError, match=r"unknown options \['tokenfile'\]; known are .*'token_file'"
    ):
        HttpBackend("https://host", {"tokenfile": "x"})
    with pytest.raises(ValueError, match="has no host"):
        HttpBackend("https:///path", {})


TABLE = b"name,value\n" + b"a,1\n" * 5000


def compressing(request: BaseHTTPRequestHandler) -> None:
    """Answer with a compressed body, whatever was asked for."""
    body = gzip.compress(TABLE)
    if request.command in ("GET", "HEAD"):
        answer(request, 200, body, Content_Encoding="gzip")
    else:
        answer(request, 405)


def test_a_file_that_is_compressed_on_the_way_is_read_as_the_file() -> None:
    with server(compressing) as url:
        storage = HttpBackend(url, {})
        assert storage.entry("x.csv") == PathEntry("file", None)
        for start in (0, 7000):
            with storage.read_from("x.csv", start) as stream:
                assert b"".join(iter(lambda: stream.read(4096), b"")) == TABLE[start:]
        assert storage.describe("x.csv", "md5") is None


def test_a_file_that_is_stored_compressed_stays_as_it_is() -> None:
    with server(compressing) as url:
        storage = HttpBackend(url, {})
        body = gzip.compress(TABLE)
        assert storage.entry("x.csv.gz") == PathEntry("file", len(body))
        with storage.read("x.csv.gz") as stream:
            assert gzip.decompress(b"".join(iter(lambda: stream.read(4096), b""))) == TABLE


def test_a_part_that_is_compressed_on_the_way_is_refused() -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        ranges = f"bytes 0-9/{len(TABLE)}"
        answer(request, 206, b"x" * 10, Content_Encoding="br", Content_Range=ranges)

    with server(respond) as url:
        reading = HttpBackend(url, {}).read_from("x.csv", 5)
        with pytest.raises(WrongFileError, match=r"compresses \(br\)"), reading:
            pass


def multistatus(*responses: tuple[str, str]) -> bytes:
    parts = (f"<D:response><D:href>{link}</D:href>{rest}</D:response>" for link, rest in responses)
    return f'<D:multistatus xmlns:D="DAV:">{"".join(parts)}</D:multistatus>'.encode()


def properties(words: str, status: str = "200 OK") -> str:
    return f"<D:propstat><D:prop>{words}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"


MISSING = "<D:status>HTTP/1.1 404 Not Found</D:status>"
SIZE = "<D:getcontentlength>{}</D:getcontentlength>"


def test_a_listing_that_names_a_path_as_missing_is_believed() -> None:
    with pytest.raises(FileNotFoundError):
        list(from_multistatus(multistatus(("/d/gone.dat", MISSING)), "/d/gone.dat"))
    folder = properties("<D:resourcetype><D:collection/></D:resourcetype>")
    listing = multistatus(("/d/", folder), ("/d/gone.dat", MISSING), ("/d/a.dat", properties(SIZE.format(3))))
    assert dict(from_multistatus(listing, "/d/")) == {"": PathEntry("folder"), "a.dat": PathEntry("file", 3)}


def test_properties_that_a_server_lacks_are_none() -> None:
    lacking = properties(SIZE.format(99) + "<D:collection/>", "404 Not Found")
    listing = multistatus(("/d/a.dat", properties(SIZE.format(3)) + lacking), ("/d/b.dat", lacking))
    entries = {"a.dat": PathEntry("file", 3), "b.dat": PathEntry("file", None)}
    assert dict(from_multistatus(listing, "/d/")) == entries


def test_a_listing_behind_a_proxy_that_rewrites_paths_is_read() -> None:
    listing = multistatus(("/inner/x/", properties("<D:collection/>")), ("/inner/x/a.dat", properties("")))
    entries = {"": PathEntry("folder"), "a.dat": PathEntry("file", None)}
    assert dict(from_multistatus(listing, "/outer/d/")) == entries
    strangers = multistatus(("/inner/x/", ""), ("/other/a.dat", ""))
    assert not dict(from_multistatus(strangers, "/outer/d/"))
