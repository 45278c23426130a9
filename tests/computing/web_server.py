"""A small real web server whose answers are a function of the test's."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Request:
    """What a client asked; ``path`` has the query behind it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Respond = Callable[[Request], tuple[int, bytes] | None]
"""Status and body of an answer; None breaks the connection."""


@dataclass
class WebServer:
    """A server on loopback that remembers what it was asked."""

    respond: Respond
    port: int = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def serving(self) -> Iterator["WebServer"]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def handle_any(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                asked = Request(self.command, self.path, dict(self.headers), self.rfile.read(size))
                outer.requests.append(asked)
                answer = outer.respond(asked)
                if answer is None:
                    self.close_connection = True
                    return
                status, body = answer
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        with ThreadingHTTPServer(("127.0.0.1", self.port), Handler) as server:
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()
