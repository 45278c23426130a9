"""The program that Slurm's REST service starts on a node fetches the whole of the agent, or none."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pilotage.adapters.computing.slurmrest import start

AGENT = b"agent" * 100_000


class BreaksOff(BaseHTTPRequestHandler):
    """Answers the first time with half of the agent only."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(AGENT)))
        self.end_headers()
        self.wfile.write(AGENT if self.asked > 1 else AGENT[: len(AGENT) // 2])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    BreaksOff.asked = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), BreaksOff)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_agent_of_which_a_part_came_is_fetched_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "PAUSES", (0, 0))
    start._fetch(url, "token", tmp_path / "agent.pyz")
    assert (tmp_path / "agent.pyz").read_bytes() == AGENT
    assert BreaksOff.asked == 2
