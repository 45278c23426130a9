"""A small server at a port, which answers what a test tells it to, and the command line pointed at it."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pilotage.cli.app import app


class FakeServer:
    """Answers by method and path, with or without the query; a list of answers is given one after another."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[tuple[str, Any]] = []
        self.tokens: list[str] = []
        self.keys: list[str] = []
        self.reasons: list[str] = []
        self.fallback: Callable[[], tuple[int, Any]] = lambda: (404, {"detail": "Not Found"})
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(size)) if size else None
                call = f"{self.command} {self.path.removeprefix('/api/v1')}"
                if call != "GET /health/live":  # asked for the version when an answer is strange
                    fake.requests.append((call, body))
                    fake.tokens.append(self.headers.get("Authorization", ""))
                    fake.keys.append(self.headers.get("Idempotency-Key", ""))
                    fake.reasons.append(self.headers.get("Pilotage-Why", ""))
                status, document, *headers = fake.take(call)
                data = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # a client may read no further
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def take(self, call: str) -> tuple[Any, ...]:
        """The next answer to a call: a document, or a status, a document and headers."""
        answer = self.answers.get(call, self.answers.get(call.partition("?")[0], self.fallback))
        if callable(answer):
            answer = answer()
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return answer if isinstance(answer, tuple) else (200, answer)

    def close(self) -> None:
        """Stop, and leave nothing open."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server of the test's own."""
    fake = FakeServer()
    yield fake
    fake.close()


class Pilotage:
    """The ``pilotage`` command with a home of its own."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.environment: dict[str, str | None] = {"PILOTAGE_HOME": str(home), "PILOTAGE_URL": url}

    def __call__(self, *words: object, **environment: str) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], env={**self.environment, **environment})


@pytest.fixture
def pilotage(tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Pilotage:
    """The command line, its server the fake one, without waits between two looks."""
    for name in ("HOME", "STORE", "URL", "TOKEN", "HOST", "PORT"):
        monkeypatch.delenv(f"PILOTAGE_{name}", raising=False)
    monkeypatch.setattr("pilotage.client._sync.events.LOOK_EVERY", 0.0)
    for name in ("FIRST", "LONGEST", "EACH"):
        monkeypatch.setattr(f"pilotage.client.waiting.{name}", 0.0)
    home = tmp_path / "home"
    home.mkdir()
    return Pilotage(home, server.url)


def remark(text: str, kind: str = "fault", *, command: str = "") -> dict[str, Any]:
    """A remark on task 12 as a server answers it."""
    given = {"kind": kind, "subject": "task:12", "text": text, "rule": "", "mend": "operator", "action": ""}
    return {**given, "command": command, "since": None, "until": None}
