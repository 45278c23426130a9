"""Slurm's REST service beside a private Slurm, on loopback. It refuses to run as root or as Slurm's user."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE, wait_for

from .slurm import PLACES, Slurm, has_tokens, user_name

VERSION = "openapi/v0.0.38"


def lacking() -> str:
    """Say what this machine lacks to run it; empty where it has all."""
    if not shutil.which("slurmrestd", path=f"{os.environ.get('PATH', '')}:{PLACES}") or not has_tokens():
        return "no slurmrestd with its plugin for tokens: `make test-sites` installs them"
    return (
        ""
        if os.getuid() == 0
        else "slurmrestd must run as another user than Slurm, for which it must be root"
    )


@contextlib.contextmanager
def rest_service(bed: Slurm, port: int, token_file: Path) -> Iterator[dict[str, Any]]:
    """A slurmrestd until the end of the block; yields options of a computing element that reach it."""
    token_file.write_text(bed.call("scontrol", "token", "lifespan=3600").strip().partition("=")[2])
    program = shutil.which("slurmrestd", path=bed.environment["PATH"])
    address = f"127.0.0.1:{port}"
    nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    with (bed.place / "slurmrestd.log").open("ab") as log:
        service = subprocess.Popen(
            [*nobody, str(program), "-a", "rest_auth/jwt", "-s", VERSION, address],
            env={**bed.environment, "SLURM_JWT": "daemon"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(lambda: _listens(port), "slurmrestd listens")
        yield {"endpoint": f"http://{address}", "user": user_name(), "token_file": str(token_file)}
    finally:
        service.terminate()
        service.wait(PATIENCE)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
