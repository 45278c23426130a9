"""The disk of a pilot's node: its free space, and the failures of attempts that it is to blame for."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..machine import MEGABYTE
from .attempt import AttemptFailedError, NodeFailedError

OWN_DISK = "on the disk of the pilot"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
BROKEN = frozenset(
    {errno.EROFS, errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.EHOSTDOWN}
)
SHORT = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN})
"""Errors that a node causes: no space, a broken disk, no memory, no more open files or processes. A payload
causes the others, for example by the names of its files."""
_SAMPLE = bytes(4096)


def free_disk(directory: Path) -> float:
    """Return the MB free for this user on a directory's disk."""
    return shutil.disk_usage(directory).free / MEGABYTE


@contextmanager
def on_this_node(label: str, *, always: bool = False) -> Iterator[None]:
    """Turn errors of the pilot's own disk into failures of the attempt.

    Raises NodeFailedError if the node is to blame, ``always`` or by the error's number, and otherwise
    AttemptFailedError.
    """
    try:
        yield
    except OSError as error:
        is_nodes = always or error.errno in FULL | BROKEN | SHORT
        raise (NodeFailedError if is_nodes else AttemptFailedError)(f"{label}: {error}") from error


def disk_fault(directory: Path, least: float, added: float, room: float) -> tuple[str, bool]:
    """Return how the disk explains a failure (empty: not at all), and whether the node is to blame.

    ``added`` are the MB that the payload wrote, and ``room`` the fewest MB that were free while it ran or
    that it took itself. A payload that took the last of the ``least`` MB is to blame itself.
    """
    try:
        free = free_disk(directory)
        with tempfile.TemporaryFile(dir=directory) as sample:
            sample.write(_SAMPLE)
    except OSError as error:
        if error.errno not in FULL:
            return f"{OWN_DISK}: {error}", True
        free = 0.0
    room = min(room, free + added)
    if free < least:
        return f"the disk of the pilot is full: {free:.0f} MB free in {directory}", room < least
    if room < least:
        return f"the disk of the pilot was full: {room:.0f} MB were free in {directory}", True
    return "", False
