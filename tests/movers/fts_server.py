"""A small server that speaks the REST of FTS as its documentation and its sources tell it, over real HTTP.

It copies by itself, from any storage of ours to any other, and keeps what it was asked. FTS itself is not in
any registry: what of a real one differs from its documentation is not seen here.
"""

import errno
import json
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pilotage.adapters.movers.http import http_backend
from pilotage.adapters.movers.storages import xrootd_backend
from pilotage.adapters.movers.storages.backend import Backend
from tests.waiting import wait_for

ACTIVE = ("SUBMITTED", "READY", "ACTIVE", "STAGING", "TOKEN_PREP")


@dataclass
class FtsServer:
    """Its state, and what it is told to do wrong."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    authorizations: set[str] = field(default_factory=set)
    proxies: list[str] = field(default_factory=list)
    proxy_end: str = ""
    hold: threading.Event = field(default_factory=threading.Event)
    """Set: files are copied; else they stay SUBMITTED."""
    lose_answers: int = 0
    """Jobs that are taken without an answer."""
    lacks_proxy: int = 0
    """Jobs are refused until so many proxies were delegated, whatever is answered about the last one."""
    refuse_sizes: frozenset[int] = frozenset()
    """Sizes of files for which a whole job is refused."""
    silent: bool = False
    """Answers nothing but errors."""
    truncate: bool = False
    """Copies lack their last byte, which a faulty storage may do."""
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: int = 0
    _request_key: Any = None

    @property
    def files(self) -> list[dict[str, Any]]:
        return [file for job in list(self.jobs.values()) for file in job["files"]]

    def submit(self, document: dict[str, Any]) -> dict[str, str]:
        if any(file["filesize"] in self.refuse_sizes for file in document["files"]):
            raise ValueError("a file of this size is refused")
        job_id = str(uuid.uuid4())
        files = []
        for one in document["files"]:
            with self._lock:
                self._numbers += 1
                number = self._numbers
            (source,), (target,) = one["sources"], one["destinations"]
            files.append(
                {
                    "file_id": number,
                    "file_state": "SUBMITTED",
                    "reason": None,
                    "file_metadata": one.get("metadata"),
                    "source_surl": source,
                    "dest_surl": target,
                    "filesize": 0,
                    "tokens": (one.get("source_tokens"), one.get("destination_tokens")),
                }
            )
        params = document["params"]
        self.jobs[job_id] = {
            "job_id": job_id,
            "job_metadata": params["job_metadata"],
            "params": params,
            "files": files,
        }
        threading.Thread(target=self._work, args=(files,), daemon=True).start()
        return {"job_id": job_id}

    def _work(self, files: list[dict[str, Any]]) -> None:
        self.hold.wait()
        for file in files:
            if file["file_state"] != "SUBMITTED":
                continue
            file["file_state"] = "ACTIVE"
            scope = "SOURCE"
            try:
                content = _content(file["source_surl"])
                scope = "DESTINATION"
                _store(file["dest_surl"], content[:-1] if self.truncate else content)
                file["filesize"] = file["transferred"] = len(content)
                file["file_state"] = "FINISHED"
            except Exception as error:
                code = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.ECOMM
                file["reason"] = f"{scope} [{code}] {type(error).__name__}: {error}"
                file["file_state"] = "FAILED"

    def cancel(self, job: str, files: list[int]) -> list[str]:
        found = []
        for file in self.jobs[job]["files"]:
            if file["file_id"] in files:
                if file["file_state"] in ACTIVE:
                    file["file_state"], file["reason"] = "CANCELED", "Job canceled by the user"
                found.append(file["file_state"])
        return found

    def listed(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        states = query["state_in"][0].split(",")
        fields = query["fields"][0].split(",")
        under_way = [
            job
            for job in self.jobs.values()
            if any(f["file_state"] in ACTIVE and f["file_state"] in states for f in job["files"])
        ]
        return [{name: job[name] for name in fields} for job in under_way]

    def shown(self, ids: list[str], fields: list[str]) -> tuple[int, Any]:
        answers: list[dict[str, Any]] = []
        for job_id in ids:
            if job := self.jobs.get(job_id):
                files = [{name: file[name] for name in fields if name in file} for file in list(job["files"])]
                answers.append({"job_id": job_id, "http_status": "200 Ok", "files": files})
            else:
                answers.append({"job_id": job_id, "http_status": "404 Not Found"})
        lacking = [one for one in answers if "files" not in one]
        if len(ids) == 1:
            return (404 if lacking else 200), answers[0]
        return (207 if lacking else 200), answers

    def answer(self, method: str, address: str, body: bytes) -> tuple[int, Any]:
        """Status and document; status 0 breaks the connection."""
        path, query = urlsplit(address).path.strip("/"), parse_qs(urlsplit(address).query)
        simple: dict[str, Callable[[], tuple[int, Any]]] = {
            "GET whoami": lambda: (200, {"delegation_id": "d1", "user_dn": "/CN=me", "vos": ["atlas"]}),
            "GET jobs": lambda: (200, self.listed(query)),
            "GET delegation/d1": lambda: (
                200,
                {"termination_time": self.proxy_end} if self.proxy_end else None,
            ),
            "GET delegation/d1/request": lambda: (200, self.certificate_request()),
        }
        if made := simple.get(f"{method} {path}"):
            return made()
        match method, *path.split("/"):
            case "POST", "jobs":
                return self.submitted(json.loads(body))
            case "GET", "jobs", ids:
                return self.shown(ids.split(","), query["files"][0].split(","))
            case "DELETE", "jobs", job_id, "files", ids:
                return 200, self.cancel(job_id, [int(one) for one in ids.split(",")])
            case "PUT", "delegation", "d1", "credential":
                self.proxies.append(body.decode())
                self.proxy_end = "2100-01-01T00:00:00"
                return 201, ""
        return 404, {"message": f"no {address}"}

    def submitted(self, document: Any) -> tuple[int, Any]:
        if self.lacks_proxy > len(self.proxies):
            return 419, {"message": "No delegation found for /CN=me"}
        job = self.submit(document)
        self.lose_answers -= bool(lost := self.lose_answers)
        return (0, "") if lost else (200, job)

    def certificate_request(self) -> str:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        self._request_key = rsa.generate_private_key(65537, 2048)
        name = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Dummy")])
        request = x509.CertificateSigningRequestBuilder().subject_name(name)
        signed = request.sign(self._request_key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()


def _backend(url: str) -> tuple[Backend, str]:
    parts = urlsplit(url)
    folder, _, name = parts.path.rpartition("/")
    made = xrootd_backend.XRootDBackend if parts.scheme == "root" else http_backend.HttpBackend
    return made(f"{parts.scheme}://{parts.netloc}{folder}", {}), name


def _content(url: str) -> bytes:
    backend, name = _backend(url)
    found = b""
    with backend.read(name) as stream:
        while chunk := stream.read(1 << 20):
            found += chunk
    return found


def _store(url: str, content: bytes) -> None:
    backend, name = _backend(url)
    backend.store(name, f"{name}.fts", [content], len(content))


def _handler(server: FtsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.requests.append(f"{self.command} {urlsplit(self.path).path}")
            server.authorizations.add(self.headers.get("Authorization", ""))
            try:
                status, answer = (
                    (503, {"message": "draining"})
                    if server.silent
                    else server.answer(self.command, self.path, body)
                )
            except ValueError as error:
                status, answer = 400, {"status": "400 Bad Request", "message": str(error)}
            if status == 0:  # the connection breaks before the answer
                self.close_connection = True
                return
            text = answer if isinstance(answer, str) else json.dumps(answer)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    return Handler


@contextmanager
def fts_server(tls: tuple[Path, Path] | None = None) -> Iterator[FtsServer]:
    """Run a server; with ``tls``, a certificate with key and the authorities of clients, over HTTPS."""
    server = FtsServer()
    server.hold.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(server)) as http:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls[0])
            context.load_verify_locations(tls[1])
            context.verify_mode = ssl.CERT_REQUIRED
            http.socket = context.wrap_socket(http.socket, server_side=True)
        server.url = f"http{'s' if tls else ''}://localhost:{http.server_port}"
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield server
        finally:
            with suppress(Exception):
                http.shutdown()


def settle(server: FtsServer, states: set[str]) -> None:
    """Wait until all files that the server has are in one of some states."""
    wait_for(
        lambda: server.files and all(file["file_state"] in states for file in server.files),
        f"files are {states}",
    )
