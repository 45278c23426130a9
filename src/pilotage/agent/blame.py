"""Who is to blame for a failed attempt, as far as its pilot can tell."""

from __future__ import annotations

from pathlib import Path

from .attempt import AttemptFailedError, InputLostError, NodeFailedError, StorageFailedError
from .node_disk import disk_fault
from .payload import Ended

OUT_OF_TIME = "the pilot's walltime is over"
"""Why a pilot ends that lived as long as it may. A payload that it stops may be too slow."""


def with_blame(
    error: str, stopping: str, failed: AttemptFailedError | None, ended: Ended, directory: Path, least: float
) -> tuple[str, str]:
    """Return the error of an attempt with what explains it, and who is to blame.

    The second is as in :class:`~.wire.Report`. ``stopping`` is why the pilot stopped it. ``failed`` is what
    failed before its payload began, or after it ended. The pilot works in ``directory``, which needs
    ``least`` MB.
    """
    if stopping or ended.blame == "pilot":
        return error, "" if stopping == OUT_OF_TIME else "pilot"
    words, is_nodes = disk_fault(directory, least, ended.max_workdir, ended.disk_room)
    told = f"{error}\n{words}".rstrip()
    if isinstance(failed, (InputLostError, StorageFailedError)) or ended.blame == "payload":
        return told, ""
    return told, "node" if is_nodes or isinstance(failed, NodeFailedError) else ""
