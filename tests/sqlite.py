"""New SQLite stores: copies of one that the first worker of a run migrates."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pilotage.store import Store

_run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or os.getpid()
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
            Store.open(f"sqlite:///{_shared}").close()
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
