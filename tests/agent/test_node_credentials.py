"""The node's own token and proxy at web storages: real TLS, a real proxy, and nobody else sees the token."""

import io
import logging
import ssl
import subprocess
import threading
import urllib.error
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pilotage.agent.files.file_access import StorageRoutes
from pilotage.agent.files.web import Web
from tests.movers.test_fts import authority

from .test_storage import WebDav, server
from .test_ways import House, attempt, brought

__all__ = ["authority", "server"]
TOKEN = "token-of-the-node"
PROXY = "proxyCertInfo=critical,language:id-ppl-inheritAll\n"


class Guarded(WebDav):
    """Opens to a token or a client's certificate, and notes both."""

    shown: list[tuple[str | None, bool]]

    def _serve(self) -> None:
        token, certificate = self.headers.get("Authorization"), bool(self.connection.getpeercert(True))
        self.shown.append((token, certificate))
        if token == f"Bearer {TOKEN}" or certificate:
            super()._serve()
        else:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer(403)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_MKCOL = _serve  # noqa: N815


@pytest.fixture
def guarded(authority: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[Guarded]]]:
    files = {"/data/in": b"hello"}
    handler = type("Handler", (Guarded,), {"files": files, "folders": {"/data"}, "seen": [], "shown": []})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "me.pem")
    context.load_verify_locations(authority / "ca.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= 0x40  # X509_V_FLAG_ALLOW_PROXY_CERTS, which Python 3.9 does not name
    trusted = authority / "trusted"
    trusted.mkdir()
    named = ["openssl", "x509", "-hash", "-noout", "-in", "ca.pem"]
    hashed = subprocess.run(named, cwd=authority, check=True, capture_output=True, text=True).stdout.strip()
    (trusted / f"{hashed}.0").write_bytes((authority / "ca.pem").read_bytes())
    monkeypatch.setenv("X509_CERT_DIR", str(trusted))
    for name in ("BEARER_TOKEN", "BEARER_TOKEN_FILE", "X509_USER_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        yield f"https://localhost:{listening.server_address[1]}", handler
        listening.shutdown()
        thread.join()


@pytest.fixture
def house(server: Any) -> House:
    url, handler = server
    handler.files["/data/in"] = b"hello"
    return House("", f"{url}/data")


def _proxy(place: Path) -> Path:
    """A proxy of the certificate of the authority's folder, with its key and chain in one file."""
    (place / "proxy.cnf").write_text(PROXY)
    for command in (
        "req -newkey rsa:2048 -nodes -keyout proxy.key -out proxy.csr -subj /DC=org/CN=me/CN=proxy",
        "x509 -req -in proxy.csr -CA me.crt -CAkey me.key -CAcreateserial -extfile proxy.cnf -out proxy.crt",
    ):
        subprocess.run(["openssl", *command.split()], cwd=place, check=True, capture_output=True)
    parts = [(place / name).read_text() for name in ("proxy.crt", "proxy.key", "me.crt")]
    (place / "proxy.pem").write_text("".join(parts))
    return place / "proxy.pem"


@pytest.mark.parametrize("kind", ["token", "token file", "proxy"])
def test_a_web_storage_opens_to_what_the_node_has(
    guarded: Any, house: House, authority: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, handler = guarded
    if kind == "token":
        monkeypatch.setenv("BEARER_TOKEN", TOKEN)
    elif kind == "token file":
        (tmp_path / "token").write_text(f"{TOKEN}\n")
        monkeypatch.setenv("BEARER_TOKEN_FILE", str(tmp_path / "token"))
    else:
        monkeypatch.setenv("X509_USER_PROXY", str(_proxy(authority)))
    assert brought(house, tmp_path / "copy", f"{url}/data") == "hello"
    way = StorageRoutes(house).to(attempt(f"{url}/data"), "out", "")
    assert way.write(".scratch/h/1.1/out", io.BytesIO(b"four")) == 4
    assert handler.files["/data/.scratch/h/1.1/out"] == b"four"
    assert set(handler.shown) == {(None, True) if kind == "proxy" else (f"Bearer {TOKEN}", False)}
    assert house.handed_on == 0


@pytest.mark.parametrize("token", ["wrong-secret", "wrong secret", "wrong\nsecret"])
def test_what_the_nodes_token_does_not_open_the_server_hands_on_and_the_log_does_not_show_it(
    guarded: Any,
    house: House,
    tmp_path: Path,
    token: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("BEARER_TOKEN", token)
    assert brought(house, tmp_path / "copy", f"{guarded[0]}/data") == "hello"
    assert house.handed_on == 1
    assert "the node's credentials failed" in caplog.text
    assert "secret" not in caplog.text


def test_a_proxy_that_cannot_be_read_is_named(
    guarded: Any,
    house: House,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("X509_USER_PROXY", str(tmp_path / "none"))
    assert brought(house, tmp_path / "copy", f"{guarded[0]}/data") == "hello"
    assert f"the proxy of the node, {tmp_path}/none: No such file" in caplog.text


def test_a_token_does_not_follow_a_redirection_that_ends_encryption() -> None:
    asked: list[tuple[str, str | None]] = []

    class Director:
        def open(self, request: Any, timeout: float) -> Any:
            asked.append((request.full_url, request.get_header("Authorization")))
            if request.full_url.startswith("https"):
                headers = {"Location": "http://host/in"}
                raise urllib.error.HTTPError(request.full_url, 302, "", headers, io.BytesIO())  # type: ignore[arg-type]
            return io.BytesIO(b"hello")

    Web({"Authorization": TOKEN}, Director()).ask("GET", "https://host/in")  # type: ignore[arg-type]
    assert asked == [("https://host/in", TOKEN), ("http://host/in", None)]
