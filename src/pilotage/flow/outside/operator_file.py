"""A file in the server's home that an operator leaves for a step."""

import os
import stat
from pathlib import Path

LARGEST = 2**20
"""Most bytes of the file."""


class FileInbox:
    """A file that is read when it appears, and renamed to ``NAME.read`` after reading.

    It is first renamed to ``NAME.reading``. A new file under its name is then the next text, and after a
    crash the server finds the first one again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = path.with_name(f"{path.name}.reading")

    @property
    def name(self) -> str:
        """The name of the file."""
        return self._path.name

    def read(self) -> str | None:
        """Read the file. Raises OSError, and ValueError if it is not UTF-8, no plain file or too large."""
        if not self._reading.exists():
            try:
                self._path.rename(self._reading)
            except FileNotFoundError:
                return None
        descriptor = os.open(self._reading, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError(f"{self._path.name} is not a plain file")
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError(f"{self._path.name} is larger than {LARGEST} bytes")
        return content.decode()

    def done(self) -> None:
        """Rename the file that was read, replacing an earlier one."""
        self._reading.replace(self._path.with_name(f"{self._path.name}.read"))
