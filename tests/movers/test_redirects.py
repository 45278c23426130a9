"""Storages that send on: to hosts of their own, and to nothing else that this machine reaches."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pilotage.adapters.movers.http import redirects
from pilotage.adapters.movers.http.http_backend import HttpBackend
from pilotage.adapters.movers.http.redirects import Redirects
from pilotage.adapters.movers.storages.backend import StorageOptionError
from pilotage.agent.files.web import Web
from pilotage.agent.files.web_addresses import may_redirect
from pilotage.ports.moving import StorageError
from tests.movers.hostile_xrootd import sending_on
from tests.movers.test_http import CONTENT, answer, read, server

RULES = [
    ("https://dav.north.example:8443/atlas", "http://dav.north.example:1094/x", None, True),
    ("https://dav.north.example", "https://pool3.north.example/x", None, True),
    ("https://dav.north.example", "https://a.b.north.example./x", None, True),
    ("https://dav.north.example", "https://north.example/x", None, True),
    ("https://dav.north.example", "https://south.example/x", None, False),
    ("https://dav.north.example", "https://xnorth.example/x", None, False),
    ("https://dav.north.example", "https://localhost/x", None, False),
    ("https://dav.north.example", "http://169.254.169.254/latest", None, False),
    ("https://dav.north.example", "http://[::1]:80/", None, False),
    ("https://north.example", "https://pool.north.example/", None, True),
    ("https://north.example", "https://other.example/", None, False),
    ("https://storage", "https://other/", None, False),
    ("https://10.1.2.3", "https://10.1.2.4/", None, False),
    ("https://10.1.2.3", "https://10.1.2.3:1/", None, True),
    ("http://localhost:1", "http://127.0.0.1:2/", None, True),
    ("https://dav.north.example", "https://pool3.north.example/x", [], False),
    ("https://dav.north.example", "https://dav.north.example/x", [], True),
    ("https://dav.north.example", "https://P1.pools.example/x", ["*.Pools.example"], True),
    ("https://dav.north.example", "https://pools.example/x", ["*.pools.example"], False),
    ("https://dav.north.example", "https://10.1.7.9/x", ["10.1.0.0/16"], True),
    ("https://dav.north.example", "https://10.2.7.9/x", ["10.1.0.0/16", "*"], False),
    ("https://dav.north.example", "https://[fd00::7]/x", ["fd00::7"], True),
    ("root://xrootd.north.example//a", "root://disk1.north.example:1095//a", None, True),
]


@pytest.mark.parametrize(("home", "to", "named", "followed"), RULES)
def test_movers_and_pilots_follow_to_a_storages_own_hosts(
    home: str, to: str, named: list[str] | None, followed: bool
) -> None:
    assert may_redirect(home, to, named) is followed
    rule = Redirects(home, named)
    if followed:
        rule.check(to)
    else:
        with pytest.raises(StorageError, match="is not known as a host of this storage"):
            rule.check(to)


@pytest.mark.parametrize(
    ("own", "address", "refused"),
    [
        ("192.88.4.1", "192.88.4.7", ""),
        ("192.88.4.1", "127.0.0.1", "the loopback address 127.0.0.1"),
        ("192.88.4.1", "::1", "loopback"),
        ("192.88.4.1", "::ffff:10.0.0.1", "the private address 10.0.0.1"),
        ("192.88.4.1", "169.254.169.254", "link-local"),
        ("192.88.4.1", "0.0.0.0", "loopback"),
        ("192.88.4.1", "100.64.0.1", "private"),
        ("192.88.4.1", "10.9.0.1", ""),
        ("10.0.0.1", "10.0.0.2", ""),
        ("10.0.0.1", "127.0.0.1", "loopback"),
    ],
)
def test_a_name_of_the_storages_domain_must_not_lead_inside(
    monkeypatch: pytest.MonkeyPatch, own: str, address: str, refused: str
) -> None:
    rule = Redirects("https://dav.north.example", ["*.north.example", "10.9.0.0/16"])
    monkeypatch.setattr(redirects, "addresses", lambda _: {ip_address(own)})
    rule.guard("https://dav.north.example/x", address)
    if refused:
        with pytest.raises(StorageError, match=refused):
            rule.guard("https://pool.north.example/x", address)
    else:
        rule.guard("https://pool.north.example/x", address)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("pool", "must be a list of hosts"),
        ([1], "must be a list of hosts"),
        (["10.1.0.1/16"], "has host bits set"),
        (["pool"] * 1001, "1001 hosts, at most 1000"),
    ],
)
def test_hosts_that_are_none_are_refused(named: object, said: str) -> None:
    with pytest.raises(StorageOptionError, match=said):
        HttpBackend("https://host", {"redirects_to": named})


@contextmanager
def inner() -> Iterator[tuple[str, list[str]]]:
    """A service that only this machine reaches, at an address of its own; its URL and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def __getattr__(self, name: str) -> Any:
            if not name.startswith("do_"):
                raise AttributeError(name)
            return self._answer

        def _answer(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            answer(self, 200, CONTENT)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.2", 0), Handler) as httpd:
        thread = Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.2:{httpd.server_address[1]}", asked
        finally:
            httpd.shutdown()
            thread.join()


@contextmanager
def hostile(to: str, status: int = 307) -> Iterator[str]:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        answer(request, status, Location=f"{to}{request.path}?signature=x")

    with server(respond) as url:
        yield url


def test_no_request_reaches_a_host_inside() -> None:
    with inner() as (there, asked), hostile(there) as url:
        backend = HttpBackend(url, {})
        calls = (
            lambda: read(backend),
            lambda: backend.entry("file"),
            lambda: list(backend.entries("")),
            lambda: backend.describe("file", "md5"),
            lambda: backend.delete("file"),
            lambda: backend.rename("file", "other"),
            lambda: backend.store("file", ".part", [CONTENT], len(CONTENT)),
            lambda: backend.fetch(HttpBackend(url, {}), "file", "draft", 1, lambda _: None),
        )
        for call in calls:
            with pytest.raises(StorageError, match=r"sent on to http://127\.0\.0\.2.*redirects_to") as failed:
                call()
            assert "signature" not in str(failed.value)
    assert asked == []


def test_a_host_that_is_named_is_followed_to() -> None:
    with inner() as (there, asked), hostile(there) as url:
        assert read(HttpBackend(url, {"redirects_to": ["127.0.0.0/30"]})) == CONTENT
        Web({}, redirects_to=["127.0.0.2"]).ask("GET", f"{url}/file").close()
    assert asked == ["GET /file?signature=x"] * 2


def test_a_name_that_leads_inside_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for = socket.getaddrinfo

    def lookup(host: str, *more: Any, **named: Any) -> Any:
        return asked_for("127.0.0.2" if host == "pool.north.example" else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with inner() as (there, asked), hostile(there.replace("127.0.0.2", "pool.north.example")) as url:
        options = {"redirects_to": ["pool.north.example"]}
        backend = HttpBackend(url, options)
        monkeypatch.setattr(redirects, "addresses", lambda _: {ip_address("192.88.4.1")})
        with pytest.raises(StorageError, match=r"pool\.north\.example has the loopback address 127\.0\.0\.2"):
            read(backend)
        assert asked == []
        assert read(HttpBackend(url, {"redirects_to": ["pool.north.example", "127.0.0.2"]})) == CONTENT


def test_a_pilot_follows_to_no_host_inside() -> None:
    with inner() as (there, asked), hostile(there) as url:
        for method in ("GET", "PUT"):
            with pytest.raises(OSError, match="is not followed: redirects_to does not name it"):
                Web({}).ask(method, f"{url}/file")
    assert asked == []


@pytest.mark.slow
def test_a_bucket_sends_nobody_on(monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = pytest.importorskip("pilotage.adapters.movers.storages.s3_backend", exc_type=ImportError)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-a-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-a-test")
    for status in (301, 307):
        with inner() as (there, asked), hostile(there, status) as url:
            backend = s3.S3Backend("s3://bucket", {"endpoint_url": url, "region": "us-east-1"})
            with pytest.raises(Exception, match=r".+"), backend.read("file"):
                pass
            assert asked == []


@pytest.mark.parametrize("to", ["file://localhost{place}", "http://127.0.0.1/{place}"])
def test_an_xrootd_server_leads_to_no_file_of_this_machine(tmp_path: Path, to: str) -> None:
    backends = pytest.importorskip("pilotage.adapters.movers.storages.xrootd_backend", exc_type=ImportError)
    secret = tmp_path / "secret"
    secret.write_text("what this machine has")
    with sending_on(to.format(place=secret)) as url:
        backend = backends.XRootDBackend(url, {})
        with pytest.raises(StorageError, match=r"sent on to .*, which is not followed"), backend.read("file"):
            pass
        with pytest.raises(StorageError, match="which is not followed"):
            backend.store("file", ".part", [b"other"], 5)
    assert secret.read_text() == "what this machine has"


@pytest.mark.parametrize("to", ["root://169.254.169.254:80//x", "root://elsewhere.example//x"])
def test_an_xrootd_server_leads_to_no_other_host(to: str) -> None:
    backends = pytest.importorskip("pilotage.adapters.movers.storages.xrootd_backend", exc_type=ImportError)
    with sending_on(to) as url:
        backend = backends.XRootDBackend(url, {})
        with (
            pytest.raises(StorageError, match="is not known as a host of this storage"),
            backend.read("file"),
        ):
            pass
