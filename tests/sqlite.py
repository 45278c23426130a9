"""New SQLite stores: copies of one that the first worker of a run migrates."""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pilotage.store import Store

_run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}-{time.time_ns()}"
_shared = Path(tempfile.gettempdir()) / f"pilotage-sqlite-{_run}.db"
"""Where workers of a run find what the first of them migrated."""


@contextmanager
def _alone() -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / f"pilotage-test-sqlite-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def _template() -> bytes:
    """A SQLite store as migrations make it; they take half a second, and so one worker makes it for all."""
    with _alone():
        if not _shared.exists():
            made = _shared.with_name(f"{_shared.name}.made")
            made.unlink(missing_ok=True)
            Store.open(f"sqlite:///{made}").close()
            made.replace(_shared)  # whoever is killed before leaves no half of a store
        return _shared.read_bytes()


def new_store(path: Path) -> str:
    """Make a SQLite store, and tell its address."""
    path.write_bytes(_template())
    return f"sqlite:///{path}"


def forget() -> None:
    """Remove what workers share: one that has not read it yet makes it anew."""
    with _alone():
        for path in _shared.parent.glob(f"{_shared.name}*"):
            path.unlink()
