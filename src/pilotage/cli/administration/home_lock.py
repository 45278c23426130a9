"""One API per home: a second server would start the home's tunnels and relays again.

Commands read its address in the file ``url`` of the home.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pilotage.settings import URL_FILE

NAME = "server.lock"
_LOCKLESS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""Errors of file systems without locks."""


class HomeTaken(Exception):
    """Another process serves this home. The message names it and its machine."""


@contextmanager
def serving(home: Path, url: str) -> Iterator[None]:
    """Be the only process that serves a home, until the block or the process ends. Raises HomeTaken."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = os.open(home / NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            # The process owns the lock, not the file: forked workers do not hold it after the process's end.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _LOCKLESS:
                raise HomeTaken(_holder(file)) from error
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} at {url}\n".encode(), 0)
        # Commands with this home find the server there. They must not open the lock's file: closing it in the
        # process that holds the lock would release it.
        draft = home / f"{URL_FILE}.new"
        draft.write_text(url)
        draft.replace(home / URL_FILE)
        try:
            yield
        finally:
            (home / URL_FILE).unlink(missing_ok=True)
    finally:
        os.close(file)


def server_of(home: Path) -> str:
    """Return the process that serves a home now; empty if none does."""
    try:
        file = os.open(home / NAME, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return "" if error.errno in _LOCKLESS else _holder(file)
    finally:
        os.close(file)
    return ""


def _holder(file: int) -> str:
    return os.pread(file, 1000, 0).decode(errors="replace").strip() or "another process"
