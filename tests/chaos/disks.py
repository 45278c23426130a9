"""Small disks of their own, which can be full, and disks that are away."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

SIZE = "300m"
"""Pilots take no job below 100 MB."""
FILLER = ".filler"


class SmallDisk:
    """A file system in memory, mounted over a folder. Only root may mount it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def mounted(cls, folder: Path, size: str = SIZE) -> "SmallDisk | None":
        """Return a small disk in a folder, or None where nobody may mount any."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "chaos", str(folder)]
        if os.getuid() or subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        return cls(folder)

    def fill(self) -> None:
        """Leave no byte free."""
        with contextlib.suppress(OSError), (self._folder / FILLER).open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))

    def clear(self) -> None:
        """Give the room back."""
        (self._folder / FILLER).unlink(missing_ok=True)

    def forbid_writing(self) -> None:
        """Let nobody write any more."""
        subprocess.run(["mount", "-o", "remount,ro", str(self._folder)], check=True)

    def unmount(self) -> None:
        """Copy what is on the disk into its folder, and unmount it."""
        kept = self._folder.with_name(f"{self._folder.name}-kept")
        shutil.copytree(self._folder, kept, symlinks=True)
        subprocess.run(["umount", "-l", str(self._folder)], check=True)


class AwayDisk:
    """A folder that can be away: something else stands in its place."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._kept = folder, folder.with_name(f".{folder.name}-away")

    def take_away(self) -> None:
        """Put a file in its place."""
        self._folder.rename(self._kept)
        self._folder.touch()

    def bring_back(self) -> None:
        """Put it back."""
        self._folder.unlink()
        self._kept.rename(self._folder)
