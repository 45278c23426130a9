"""The program that Slurm starts on a node. It fetches the agent from the server and stays until the agent's
end.

The batch script is its text, followed by a call of ``main``. It uses Python 3.9 and the standard library
only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

PAUSES = (1, 4, 15, 60, 120, 0)
"""Seconds to wait after each failed attempt to fetch the agent."""

TIME_LIMIT = 60.0
"""Seconds without a byte after which an attempt counts as failed."""


def main(order: dict[str, Any]) -> None:
    """Become a pilot.

    ``order`` has its name, its token, the agent's options, the server's URL and a directory.
    """
    os.umask(0o077)
    if order["directory"]:
        Path(order["directory"]).mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=order["name"] + ".", dir=order["directory"] or None))
    agent, token = work / "agent.pyz", work / "token"
    try:
        _fetch(order["url"] + "/api/v1/pilot/agent.pyz", order["token"], agent)
        token.write_text(order["token"])
        places = [f"--directory={work}", f"--token-file={token}", "--remove-token-file"]
        code = _run([sys.executable, "-I", str(agent), *order["options"], *places])
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(code)


def _fetch(url: str, token: str, path: Path) -> None:
    """Write the agent's file. Exits if the server does not give it."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    error: object = None
    for pause in PAUSES:
        try:
            with urllib.request.urlopen(request, timeout=TIME_LIMIT) as answer, path.open("wb") as file:
                shutil.copyfileobj(answer, file)
                if answer.length:
                    # For a piecewise read, a broken answer looks like its end.
                    raise OSError(f"{answer.length} bytes of it did not arrive")
            return
        except OSError as failure:
            error = failure
            time.sleep(pause)
    sys.exit(f"the agent cannot be fetched from {url}: {error}")


def _run(command: list[str]) -> int:
    """Run the agent and pass this process's signals on to it. Return its exit code."""
    agent = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda received, _: agent.send_signal(received))
    code = agent.wait()
    return code if code >= 0 else 128 - code
