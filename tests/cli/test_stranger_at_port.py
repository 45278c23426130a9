"""The home's server has ended, and another user of this machine listens at its port."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import locked_port
from tests.waiting import wait_for

from .conftest import FakeServer, Pilotage

NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"

LISTENER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.headers.get("Authorization"), flush=True)
        self.send_response(404)
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("listens", flush=True)
server.serve_forever()
"""

needs_root = pytest.mark.skipif(
    sys.platform != "linux"
    or os.geteuid() != 0
    or not shutil.which("setpriv")
    or not Path(SYSTEM_PYTHON).exists(),
    reason="only root starts a listener of another user",
)


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a listener of another user, and the file of the tokens that came."""
    seen = tmp_path / "seen"
    words = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", SYSTEM_PYTHON, "-c", LISTENER]
    with locked_port() as port, seen.open("w") as out:
        process = subprocess.Popen([*words, str(port)], stdout=out, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: "listens" in seen.read_text(), "the stranger listens")
            yield f"http://127.0.0.1:{port}", seen
        finally:
            process.kill()
            process.wait(60)


@needs_root
def test_a_stranger_at_the_port_of_the_homes_server_gets_no_token(
    pilotage: Pilotage, stranger: tuple[str, Path]
) -> None:
    url, seen = stranger
    (pilotage.home / "token").write_text("secret")
    (pilotage.home / "url").write_text(url)
    told = pilotage("queues", PILOTAGE_URL="")
    assert (told.exit_code, told.stdout) == (3, "")
    assert told.stderr.startswith(f"what listens at {url} is of the user nobody, and got no token; ")
    assert seen.read_text() == "listens\n"
    # Who names the address trusts it.
    pilotage("queues", PILOTAGE_URL=url)
    assert "Bearer secret" in seen.read_text()


def test_the_users_own_server_is_found_by_the_home(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /queues"] = {"queues": []}
    (pilotage.home / "token").write_text("secret")
    (pilotage.home / "url").write_text(server.url)
    assert pilotage("queues", PILOTAGE_URL="").exit_code == 0
    assert server.tokens == ["Bearer secret"]
