"""A small real HTTP server at the pilot's port: its routes over lists in memory."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pilotage.adapters.computing.agent_file import agent_file
from pilotage.agent import wire
from pilotage.agent.files.spool_wire import SealedManifest
from pilotage.agent.parsing import parse
from pilotage.model.documents.serialization import from_document
from pilotage.model.documents.world import Report

TOKEN = f"enrolment-token-of-test-{os.getpid()}"
OWN_TOKEN = "pilot-token-of-a-test"


@dataclass
class FakeServer:
    """What the server would know. ``works`` are handed out one match each; ``status`` answers every call."""

    works: list[list[dict[str, Any]]] = field(default_factory=list)
    payloads: dict[int, dict[str, str]] = field(default_factory=dict)
    stop: list[tuple[int, int]] = field(default_factory=list)
    status: int = 200
    status_of: dict[str, int] = field(default_factory=dict)
    lease: float = 30
    first_lease: float = 0
    pilot_lease: float = 0
    deaf_once_it_gave_work: bool = False
    heartbeat: float = 0.2
    idle: float = 0.2
    port: int = 0
    reports: list[Report] = field(default_factory=list)
    holding: list[tuple[int, int]] = field(default_factory=list)
    matches: list[dict[str, Any]] = field(default_factory=list)
    nonces: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    unanswered: list[dict[str, Any]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    unfit: bool = False
    unknown: tuple[str, ...] = ()
    heard: list[str | None] = field(default_factory=list)
    time: float = 0
    read: list[tuple[int, int]] = field(default_factory=list)
    read_own: bool = False
    logs: dict[tuple[int, int], wire.AttemptLogs] = field(default_factory=dict)
    own_log: wire.Log | None = None
    contents: dict[str, bytes] = field(default_factory=dict)
    retry_after: int = 0
    found: list[SealedManifest] = field(default_factory=list)
    courier_order: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        name = path.removeprefix("/api/v1/pilot/")
        if name == "enrol":
            return {"token": OWN_TOKEN}
        if name == "match":
            # The agent leaves out what is empty; tests read it all the same.
            self.matches.append(json.loads(json.dumps(asdict(parse(wire.Offer, json.dumps(body).encode())))))
            works = self.works.pop(0) if self.works else []
            if works and self.deaf_once_it_gave_work:
                self.status_of["report"] = 503
            return {
                "lease": self.lease,
                "first_lease": self.first_lease,
                "pilot_lease": self.pilot_lease,
                "heartbeat": self.heartbeat,
                "idle": self.idle,
                "works": works,
                "time": self.time,
            }
        if name == "report":
            self.reports += [from_document(Report, report) for report in body.get("reports", ())]
            self.holding = [(job, attempt) for job, attempt in body.get("holding", ())]
            told = parse(wire.Reports, json.dumps(body).encode())
            self.logs |= {(log.job, log.attempt): log for log in told.logs}
            self.own_log = told.own_log or self.own_log
            return {"stop": self.stop, "read": self.read, "read_own": self.read_own, "time": self.time}
        if name == "access" or name.startswith("left"):
            return self.answer_about_files(body)
        if name == "end":
            told_last = parse(wire.Reason, json.dumps(body).encode())
            self.ended.append(told_last.reason)
            self.unfit = told_last.unfit
            self.own_log = told_last.own_log
            return None
        return {"files": self.payloads[int(name.removeprefix("payload/"))]}

    def answer_about_files(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a pilot that asks for an address, found what another left, or has delivered it."""
        if "manifest" not in body:
            return {} if body else None
        self.found.append(parse(SealedManifest, json.dumps(body).encode()))
        return self.courier_order

    def status_for(self, name: str, token: str, body: dict[str, Any]) -> int:
        """The status of the answer to a call."""
        if token != f"Bearer {TOKEN if name == 'enrol' else OWN_TOKEN}":
            return 401
        if any(f'"{one}"' in json.dumps(body) for one in self.unknown):
            return 422
        return self.status_of.get(name, self.status)

    def keep(self, path: str, body: bytes) -> int:
        """Store an output that goes through the server; the status of the answer."""
        status = self.status_of.get("content", 200)
        if status == 200:
            self.contents[path.removeprefix("/api/v1/pilot/content/")] = body
        return status

    def states(self, job: int = 1) -> list[str]:
        """What was reported of a job, in order."""
        return [report.state for report in self.reports if report.job == job]

    def last(self, job: int = 1) -> Report:
        """The last report of a job."""
        return [report for report in self.reports if report.job == job][-1]

    @contextmanager
    def serving(self) -> Iterator["FakeServer"]:
        """Listen on the loopback address, on the same port every time."""
        fake, gone = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def do_GET(self) -> None:
                self._answer({})

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if gone.is_set():
                    self.close_connection = True
                    return
                self._send(fake.keep(self.path, body), b"{}")

            def _answer(self, body: dict[str, Any]) -> None:
                if gone.is_set():
                    self.close_connection = True
                    return
                name = self.path.rpartition("/")[2]
                fake.calls.append(self.path)
                if name == "agent.pyz":
                    self._send(
                        200 if self.headers["Authorization"] == f"Bearer {TOKEN}" else 401, agent_file()
                    )
                    return
                fake.nonces += [body["nonce"]] if name == "enrol" else []
                status = fake.status_for(name, self.headers["Authorization"], body)
                fake.heard.append(self.headers[wire.HEARD])
                fake.unanswered += [body] if status != 200 else []
                answer = fake.answer(self.path, body) if status == 200 else {"detail": "as told"}
                data = b"" if answer is None else json.dumps(answer).encode()
                self._send(204 if answer is None else status, data)

            def _send(self, status: int, data: bytes) -> None:
                self.send_response(status)
                self.send_header("Retry-After", str(fake.retry_after))
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        with ThreadingHTTPServer(("127.0.0.1", self.port), Handler) as server:
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            try:
                yield self
            finally:
                gone.set()
                server.shutdown()
                thread.join()
