"""An identity provider on loopback: discovery, keys and signed tokens. It shares no code with what it tests.

It signs with `cryptography` alone, so that a fault of the server's library is not a fault of both.
"""

import hashlib
import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode

from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@dataclass
class SigningKey:
    """A key of a provider, and its public form."""

    id: str
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

    @property
    def algorithm(self) -> str:
        return "RS256" if isinstance(self.private, rsa.RSAPrivateKey) else "ES256"

    def public(self) -> dict[str, Any]:
        if isinstance(self.private, rsa.RSAPrivateKey):
            numbers = self.private.public_key().public_numbers()
            return {
                "kty": "RSA",
                "kid": self.id,
                "use": "sig",
                "n": _number(numbers.n),
                "e": _number(numbers.e),
            }
        point = self.private.public_key().public_numbers()
        x, y = (encoded(value.to_bytes(32, "big")) for value in (point.x, point.y))
        return {"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": x, "y": y}

    def sign(self, data: bytes) -> bytes:
        if isinstance(self.private, rsa.RSAPrivateKey):
            return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())
        r, s = decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def rsa_key(id_: str, bits: int = 2048) -> SigningKey:
    return SigningKey(id_, rsa.generate_private_key(65537, bits))


def ec_key(id_: str) -> SigningKey:
    return SigningKey(id_, ec.generate_private_key(ec.SECP256R1()))


def signed_by_public_key(key: SigningKey, header: Mapping[str, Any], payload: bytes) -> str:
    """A token with HS256, whose secret is the public key: verifiers that mix up keys accept it."""
    text = f"{encoded(json.dumps(dict(header)).encode())}.{encoded(payload)}"
    secret = key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    code = hmac.HMAC(secret, hashes.SHA256())
    code.update(text.encode())
    return f"{text}.{encoded(code.finalize())}"


@dataclass
class IdentityProvider:
    """What a provider serves, and how often it was asked. ``answers`` replaces answers by path."""

    port: int = 0
    keys: list[SigningKey] = field(default_factory=list)
    answers: dict[str, tuple[int, Mapping[str, str], bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    dripping: float = 0.0
    person: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refreshable: set[str] = field(default_factory=set)
    polls: list[str] = field(default_factory=lambda: ["authorization_pending", "confirmed"])
    device: dict[str, Any] = field(
        default_factory=lambda: {
            "device_code": "device-secret",
            "user_code": "WDJB-MJHT",
            "verification_uri": "https://idp.example.org/device",
            "expires_in": 600,
            "interval": 1,
        }
    )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/realm"

    def discovery(self) -> dict[str, Any]:
        ends = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "device_authorization_endpoint": "device",
            "revocation_endpoint": "revoke",
        }
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            **{name: f"{self.url}/{end}" for name, end in ends.items()},
        }

    def token_answer(self, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Answer a request for tokens. Each refresh token is good for one use."""
        if form["grant_type"].endswith("device_code"):
            if form["device_code"] != "device-secret" or not self.polls:
                return 400, {"error": "invalid_grant"}
            if (next_answer := self.polls.pop(0)) != "confirmed":
                return 400, {"error": next_answer}
        elif form["grant_type"] == "authorization_code":
            wanted = self.codes.pop(form["code"], {})  # each code is good for one use
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            if (
                wanted.get("code_challenge") != encoded(digest)
                or wanted["redirect_uri"] != form["redirect_uri"]
            ):
                return 400, {"error": "invalid_grant", "error_description": "a wrong code"}
        elif form.get("refresh_token") not in self.refreshable:
            return 400, {"error": "invalid_grant", "error_description": "used \x1b[2J before"}
        refresh = f"refresh-{len(self.asked)}"
        self.refreshable = {refresh}
        access = self.token(time.time(), jti=str(len(self.asked)), **self.person)
        return 200, {
            "access_token": access,
            "refresh_token": refresh,
            "expires_in": 600,
            "token_type": "Bearer",
        }

    def posted(self, path: str, form: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        self.asked.append(path)
        if form.get("client_id") not in ("pilotage-command", "pilotage-page"):
            return 401, {}, b'{"error": "invalid_client"}'
        if path in self.answers:
            return self.answers[path]
        if path == "/realm/revoke":
            self.refreshable.discard(form["token"])
            return 200, {}, b""
        status, document = self.token_answer(form) if path == "/realm/token" else (200, self.device)
        return status, {}, json.dumps(document).encode()

    def answer(self, path: str) -> tuple[int, Mapping[str, str], bytes]:
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]
        if path == "/realm/.well-known/openid-configuration":
            return 200, {}, json.dumps(self.discovery()).encode()
        if path.startswith("/realm/authorize?"):
            return self.authorized(dict(parse_qsl(path.partition("?")[2])))
        if path == "/realm/keys":
            return 200, {}, json.dumps({"keys": [key.public() for key in self.keys]}).encode()
        return 404, {}, b"{}"

    def authorized(self, query: dict[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        """Send a browser back with a code, as if its person had signed in at once."""
        code = f"code-{len(self.asked)}"
        self.codes[code] = query
        back = urlencode({"code": code, "state": query["state"], "iss": self.url})
        return 303, {"Location": f"{query['redirect_uri']}?{back}", "Content-Length": "0"}, b""

    def claims(self, now: float, **claims: Any) -> dict[str, Any]:
        """Claims of a good token; None leaves one out."""
        usual = {"iss": self.url, "aud": "pilotage", "sub": "4711", "iat": int(now), "exp": int(now) + 600}
        return {name: value for name, value in {**usual, **claims}.items() if value is not None}

    def token(
        self,
        now: float,
        *,
        key: SigningKey | None = None,
        header: Mapping[str, Any] | None = None,
        payload: bytes | None = None,
        **claims: Any,
    ) -> str:
        """A signed token."""
        key = key or self.keys[0]
        head = {"alg": key.algorithm, "typ": "JWT", "kid": key.id, **(header or {})}
        body = json.dumps(self.claims(now, **claims)).encode() if payload is None else payload
        text = f"{encoded(json.dumps(head).encode())}.{encoded(body)}"
        return f"{text}.{encoded(key.sign(text.encode()))}"


@contextmanager
def serving(provider: IdentityProvider) -> Iterator[IdentityProvider]:
    """Serve a provider, at its port if it has one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.give(*provider.answer(self.path))

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.give(*provider.posted(self.path, dict(parse_qsl(text))))

        def give(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for at in range(0, len(body), 1 << 16):
                    time.sleep(provider.dripping)
                    self.wfile.write(body[at : at + (1 << 16)])
            except OSError:
                pass  # the client has read enough

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", provider.port), Handler)
    server.daemon_threads = True
    provider.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
