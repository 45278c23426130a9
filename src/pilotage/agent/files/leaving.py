"""Results that a pilot leaves in its site's spool because its server is away until the pilot must end.

These results give a reader no rights, and only the pilot can make them. A manifest names each file with its
checksum. It is sealed with a key that follows from the pilot's token and the attempt. The server knows the
hash of that token, and so verifies the seal.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..machine import MEGABYTE
from ..parsing import serialise
from ..payload.attempt import AttemptFailedError
from ..wire import AttemptLogs, Output, Report
from .spool_wire import MANIFEST, LeftFile, LeftResults, seal
from .transfer import open_output

BLOCK = 4 << 20


def leave(
    spool: Path,
    limit: float,
    token_hash: str,
    report: Report,
    logs: AttemptLogs | None,
    directory: Path,
    unsent: Sequence[str],
) -> None:
    """Leave the report of an attempt, and those outputs in its directory that no storage has yet.

    All that is left in the folder around the pilot's ``spool`` takes up to ``limit`` MB. Raises OSError, and
    AttemptFailedError for an output that is no regular file.
    """
    name = f"{report.job}.{report.attempt}"
    draft = spool / f".{name}"
    draft.mkdir(mode=0o700, parents=True)
    room = int(limit * MEGABYTE) - _size(spool.parent)
    try:
        files, outputs = [], []
        for number, path in enumerate(unsent):
            file, output = _copied(directory, path, draft / str(number), room)
            room -= file.size
            files.append(file)
            outputs.append(output)
        fields = {**vars(report), "outputs": (*report.outputs, *outputs)}
        manifest = serialise(LeftResults(Report(**fields), tuple(files), logs))
        seals = seal(token_hash, report.job, report.attempt, manifest)
        (draft / MANIFEST).write_bytes(seals.encode() + b"\n" + manifest)
        # A folder with its final name is complete.
        draft.rename(spool / name)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _copied(directory: Path, path: str, target: Path, room: int) -> tuple[LeftFile, Output]:
    strong, weak, size = hashlib.sha256(), 1, 0
    with open_output(directory, path) as source, target.open("xb") as copy:
        while data := source.read(BLOCK):
            size += len(data)
            if size > room:
                raise AttemptFailedError(f"output {path}: the spool has no room for it")
            strong.update(data)
            weak = zlib.adler32(data, weak)
            copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())
    return LeftFile(path, size, strong.hexdigest()), Output(path, size, f"adler32:{weak:08x}")


def _size(folder: Path) -> int:
    """Return the bytes of all files below a folder, to which other pilots may write now."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += Path(place, name).lstat().st_size
    return size
