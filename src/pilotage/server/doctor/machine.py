"""Checks of the server's machine."""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pilotage.server.doctor.checks import Finding, check, warning
from pilotage.server.doctor.installation import Installation, NotExamined

LEAST_BYTES, FEW_BYTES = 200e6, 2e9
"""Free bytes below which writes fail soon, and below which an operator should know."""

LEAST_INODES = 1000

LEAST_OPEN_FILES = 4096
"""Open files that a server with a thousand pilots, and its transfers, needs."""


def _folders(installation: Installation) -> Mapping[str, Path]:
    """Return the folders that a server writes, by name: the first of each file system."""
    if not installation.home.exists():
        raise NotExamined("no server has run on this machine")
    folders = {"home": installation.home, "temporary files": Path(tempfile.gettempdir())}
    if (archive := installation.settings.archive) is not None:
        folders["archive"] = archive
    scheme, _, file = installation.settings.store.partition(":///")
    if scheme == "sqlite" and file:
        folders["store"] = Path(file).parent
    devices = {path.stat().st_dev: name for name, path in reversed(folders.items()) if path.exists()}
    return {name: path for name, path in folders.items() if not path.exists() or name in devices.values()}


@check("disk", each=_folders)
def disk_space(_: Installation, folder: Path) -> Iterator[Finding]:
    """Look for room where a server writes."""
    if not folder.exists():
        yield Finding(
            what=f"{folder} does not exist",
            why="what goes there cannot be written",
            mend=f"mkdir -p {folder}",
        )
        return
    free, nodes = shutil.disk_usage(folder).free, os.statvfs(folder)
    if free < FEW_BYTES:
        yield Finding(
            what=f"{free / 1e9:.1f} GB are free at {folder}",
            why="a server with a full disk stops deciding, and answers 503",
            mend=f"du -xh {folder} | sort -h | tail; pilotage history archive --older-than 90 --to ELSEWHERE",
            severity="fault" if free < LEAST_BYTES else "warning",
        )
    if nodes.f_files and nodes.f_favail < LEAST_INODES:
        yield Finding(
            what=f"{nodes.f_favail} files can still be made at {folder}",
            why="without inodes no file is written, however much space is free",
            mend=f"du --inodes -x {folder} | sort -n | tail",
        )


@check("open files")
def open_files(installation: Installation) -> Iterator[Finding]:
    """Look how many files and connections a process may have open."""
    if not installation.home.exists():
        raise NotExamined("no server has run on this machine")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < LEAST_OPEN_FILES:
        yield warning(
            f"a process may open {hard} files",
            "each pilot's connection and each transfer needs some, and the server refuses what is above",
            "LimitNOFILE=65536 in the server's systemd unit, or: ulimit -n 65536",
        )
