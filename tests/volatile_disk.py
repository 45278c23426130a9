"""A disk that forgets what was not written to it with ``fsync``, as a machine does that loses its power.

It is a file system in a file. The kernel has a command that ends one as a power failure does: it drops all
that waits in memory, the journal too.
"""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_for

_SHUTDOWN = 0x8004587D
"""``EXT4_IOC_SHUTDOWN``, whose argument says what becomes of the journal."""
_WITHOUT_JOURNAL = struct.pack("I", 2)

SIZE = 1 << 30
"""Bytes of the disk. Its file takes as many as were written."""

OPTIONS = "loop,noatime,commit=600"
"""Nothing but ``fsync`` writes the journal while a test runs."""


class VolatileDisk:
    """A mounted file system. What is on it when it loses power is what was synced."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.folder, self._image = folder, image

    def mount(self) -> str:
        """Make its files appear. Return why that is impossible; empty if it is not."""
        return _run("mount", "-o", OPTIONS, str(self._image), str(self.folder))

    def lose_power(self) -> None:
        """Forget all that was not synced, and start again. No process may use the disk."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, _WITHOUT_JOURNAL)
        finally:
            os.close(folder)
        self.unmount()
        assert not self.mount()

    def unmount(self) -> None:
        """Take it away, once no process uses it."""
        wait_for(lambda: _run("umount", str(self.folder)) == "", "the end of all that uses the disk", 60)


@contextmanager
def volatile_disk(place: Path) -> Iterator[VolatileDisk]:
    """Make a disk in a folder. Where that is impossible, the test is skipped."""
    image, folder = place / "disk.img", place / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZE)
    disk = VolatileDisk(image, folder)
    fault = _run("mkfs.ext4", "-q", str(image)) or disk.mount()
    if fault:
        pytest.skip(f"a disk that loses power needs ext4, loop devices and root: {fault}")
    try:
        yield disk
    finally:
        disk.unmount()


def _run(*words: str) -> str:
    """Run a command. Return why it failed; empty if it did not."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
        )
    except FileNotFoundError as error:
        return str(error)
    return (done.stderr.strip() or f"{words[0]} ended with {done.returncode}") if done.returncode else ""
