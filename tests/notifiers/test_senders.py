"""Senders of notifications on real servers of this machine: what they send, and what they refuse."""

import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedRWPair
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pilotage.adapters.notifiers import addresses, mail, webhook
from pilotage.adapters.notifiers.sender import Sender
from pilotage.ports.notifying import NotificationError, NotificationMessage, NotificationRefused

NOW = 1_800_000_000.0
PrivateKey = ec.EllipticCurvePrivateKey
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "notifications.md"


def message(receiver: str, secret: str = "") -> NotificationMessage:
    return NotificationMessage(
        number="7-7-1", receiver=receiver, subject="news", text="text", body=b'{"a": 1}', secret=secret
    )


class Hook:
    """A web server that keeps requests, and answers with a status."""

    def __init__(self) -> None:
        hook, self.status = self, 204
        self.requests: list[tuple[dict[str, str], bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.requests.append((dict(self.headers), body))
                self.send_response(hook.status)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Stay silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def hook() -> Iterator[Hook]:
    there = Hook()
    yield there
    there.server.shutdown()
    there.server.server_close()


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 with its key in one file, and the authority that signed it, made here."""
    now = datetime.now(UTC)

    def made(name: str, issuer: str, key: PrivateKey, by: PrivateKey) -> bytes:
        is_authority = name == issuer
        builder = x509.CertificateBuilder(
            subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
            issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(1),
            not_valid_after=now + timedelta(1),
        ).add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        if not is_authority:
            names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    own, authority = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    key = own.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    server, trusted = folder / "server.pem", folder / "authority.pem"
    server.write_bytes(key + made("server", "authority", own, authority))
    trusted.write_bytes(made("authority", "authority", authority, authority))
    return server, trusted


def test_a_webhook_with_tls_is_called_if_its_authority_is_trusted(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, trusted = certified(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    # The handshake belongs to a request's thread: one that fails would end the server's.
    hook.server.socket = context.wrap_socket(
        hook.server.socket, server_side=True, do_handshake_on_connect=False
    )
    url = hook.url.replace("http://", "url:https://")
    with pytest.raises(NotificationError, match=r"certificate .* is not trusted: .*; SSL_CERT_FILE"):
        sender(http=False).send(message(url))
    assert not hook.requests
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    sender(http=False).send(message(url))
    assert [body for _, body in hook.requests] == [b'{"a": 1}']
    with pytest.raises(NotificationError, match=r"is not trusted: .*mismatch"):
        sender(http=False).send(message(url.replace("127.0.0.1", "localhost")))


def sender(**settings: Any) -> Sender:
    return Sender(**{"clock": lambda: NOW, "allowed_networks": ["127.0.0.0/8"], "http": True, **settings})


def test_the_code_of_the_guide_verifies_a_signed_webhook(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    sender().send(message(f"url:{hook.url}", "topsecret"))
    ((headers, body),) = hook.requests
    assert body == b'{"a": 1}'
    names: dict[str, Any] = {}
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    exec(code, names)
    monkeypatch.setattr("time.time", lambda: NOW + 60)
    secret = webhook.secret_text("topsecret")
    assert names["is_genuine"](secret, headers, body)
    assert not names["is_genuine"](secret, headers, body + b" ")
    assert not names["is_genuine"](webhook.secret_text("other"), headers, body)
    monkeypatch.setattr("time.time", lambda: NOW + 600)
    assert not names["is_genuine"](secret, headers, body)


@pytest.mark.parametrize(("status", "kind"), [(410, NotificationRefused), (302, NotificationRefused)])
def test_a_refusal_or_redirect_is_final(hook: Hook, status: int, kind: type[Exception]) -> None:
    hook.status = status
    with pytest.raises(kind):
        sender().send(message(f"url:{hook.url}"))
    assert len(hook.requests) == 1
    assert "Webhook-Signature" not in hook.requests[0][0]


def test_a_failure_of_the_server_is_tried_again(hook: Hook) -> None:
    hook.status = 503
    with pytest.raises(NotificationError, match="status 503") as told:
        sender().send(message(f"url:{hook.url}"))
    assert not isinstance(told.value, NotificationRefused)


def test_own_networks_are_refused_also_by_name_and_plain_http_is(hook: Hook) -> None:
    for url in (hook.url, hook.url.replace("127.0.0.1", "localhost")):
        with pytest.raises(NotificationRefused, match="no public network"):
            sender(allowed_networks=()).send(message(f"url:{url}"))
    with pytest.raises(NotificationRefused, match="http://"):
        sender(http=False).send(message(f"url:{hook.url}"))
    assert hook.requests == []


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1", "192.168.1.1"),
        *(
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "ff02::1",
            "fec0::1",
            "4000::1",
        ),
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert "no public network" in addresses.refusal(address, ())


def test_public_and_allowed_addresses() -> None:
    assert addresses.refusal("93.184.216.34", ()) == addresses.refusal("2606:2800:220:1::1", ()) == ""
    allowed = addresses.networks(["10.1.0.0/16"])
    assert addresses.refusal("10.1.2.3", allowed) == addresses.refusal("::ffff:10.1.2.3", allowed) == ""
    assert addresses.refusal("10.2.0.1", allowed)


def test_the_checked_address_is_the_one_that_is_called(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = socket.getaddrinfo

    def once(host: str, *words: Any, **named: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1" if host == "rebound.test" else host, *words, **named)

    monkeypatch.setattr(socket, "getaddrinfo", once)
    sender().send(message(f"url:{hook.url.replace('127.0.0.1', 'rebound.test')}"))
    assert asked.count("rebound.test") == 1
    assert hook.requests[0][0]["Host"].startswith("rebound.test")


def test_a_receiver_that_sends_drop_by_drop_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "TIME_LIMIT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not ended.wait(0.05):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(NotificationError, match="cannot be reached"):
            sender().send(message(f"url:http://127.0.0.1:{server.getsockname()[1]}/"))
        ended.set()
        thread.join()


def test_commands_that_the_operator_allows_read_the_message(tmp_path: Path) -> None:
    program = tmp_path / "page"
    program.write_text(
        f'#!/bin/sh\ncat > "{tmp_path}/got"\necho "$PILOTAGE_SUBJECT" > "{tmp_path}/subject"\n'
    )
    program.chmod(0o755)
    there = sender(commands={"page": str(program)})
    there.send(message("command:page"))
    assert json.loads((tmp_path / "got").read_text()) == {"a": 1}
    assert (tmp_path / "subject").read_text() == "news\n"
    with pytest.raises(NotificationRefused, match="these are: page"):
        there.send(message("command:other"))
    program.write_text("#!/bin/sh\necho no line >&2\nexit 3\n")
    with pytest.raises(NotificationError, match="ended with 3: no line"):
        there.send(message("command:page"))


class MailServer:
    """An SMTP server for one connection, which keeps the lines that it gets.

    ``answers`` replace those to some commands; ``HELLO`` is the connection itself, and ``.`` ends a message.
    It hangs instead of an answer that is empty.
    """

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self._answers = {"HELLO": "220 ready", "DATA": "354 go on", "QUIT": "221 bye", **answers}
        self._server = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        url = f"smtp://127.0.0.1:{self._server.getsockname()[1]}"
        self.sender = sender(smtp=url, mail_from="p@example.org")

    def __enter__(self) -> "MailServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._server.close()

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        with connection, connection.makefile("rwb") as stream:
            self._say(stream, "HELLO")
            is_data = False
            for line in stream:
                text = line.decode().rstrip("\r\n")
                self.lines.append(text)
                if is_data and text != ".":
                    continue
                word = text.split(" ")[0].upper()
                is_data = word == "DATA"
                self._say(stream, word)

    def _say(self, stream: BufferedRWPair, word: str) -> None:
        answer = self._answers.get(word, "250 ok")
        if not answer:
            self._ended.wait(30)
            return
        with suppress(OSError):
            stream.write(answer.encode() + b"\r\n")
            stream.flush()


def test_mail_goes_to_the_operators_server() -> None:
    with MailServer({}) as server:
        server.sender.send(message("email:ada@example.org"))
    assert {"From: p@example.org", "To: ada@example.org", "Subject: news", "text"} <= set(server.lines)
    assert "PILOTAGE_SMTP" in sender().fault("email:ada@example.org")


def test_no_text_of_a_task_becomes_a_header_or_a_receiver() -> None:
    with MailServer({}) as server:
        subject = "of =?utf-8?q?x=0D=0ABcc=3A_eve@example.org?=\r\nBcc: eve@example.org\0"
        told = replace(message("email:ada@example.org"), subject=subject, text="a\n.\nRCPT TO:<eve@x>")
        server.sender.send(told)
    assert [line for line in server.lines if line.startswith("rcpt")] == ["rcpt TO:<ada@example.org>"]
    headers = [line.split(":")[0] for line in server.lines[server.lines.index("data") + 1 :]]
    assert "Bcc" not in headers
    assert server.lines[-5:-1] == ["a", "..", "RCPT TO:<eve@x>", "."]


@pytest.mark.parametrize(
    "address", ["=?utf-8?q?eve=40x.org=2C?=b@x.org", 'a"b@x.org', "(a)b@x.org", "b@x..org"]
)
def test_an_address_that_mail_libraries_read_in_two_ways_is_refused(address: str) -> None:
    assert "no plain e-mail address" in sender(smtp="smtp://127.0.0.1:1").fault(f"email:{address}")


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({"RCPT": "550 nobody"}, "refuses ada@example.org: 550 nobody"),
        ({".": "554 spam"}, "refuses the message: 554 spam"),
    ],
)
def test_what_a_mail_server_refuses_for_good_is_not_sent_again(
    answers: Mapping[str, str], error: str
) -> None:
    with MailServer(answers) as server, pytest.raises(NotificationRefused, match=error):
        server.sender.send(message("email:ada@example.org"))


@pytest.mark.parametrize("answers", [{"HELLO": ""}, {"HELLO": "421 busy"}, {"RCPT": "450 later"}, {".": ""}])
def test_mail_is_tried_again_where_its_server_hangs_or_refuses_for_now(
    answers: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail, "TIMEOUT", 0.2)
    with MailServer(answers) as server, pytest.raises(NotificationError) as found:
        server.sender.send(message("email:ada@example.org"))
    assert not isinstance(found.value, NotificationRefused)


def test_mail_that_its_server_has_taken_is_sent_once_although_the_server_then_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mail, "TIMEOUT", 0.2)
    with MailServer({"QUIT": ""}) as server:
        server.sender.send(message("email:ada@example.org"))
    assert "quit" in [line.lower() for line in server.lines]
