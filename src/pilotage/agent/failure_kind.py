"""The kind of a failed attempt, from what its pilot knows. The server declares the consequences."""

from __future__ import annotations

from pathlib import Path

from .payload.attempt import AttemptFailedError
from .payload.node_disk import disk_fault
from .payload.payload import Ended

OUT_OF_TIME = "the pilot's walltime is over"
"""Why a pilot ends at the end of its walltime. A payload that it stops may be too slow."""

_UNCLEAR = frozenset({"payload", "command", "container", "start", "output"})
"""Kinds that a full disk of the node explains."""


def with_kind(
    error: str, stopping: str, failed: AttemptFailedError | None, ended: Ended, directory: Path, least: float
) -> tuple[str, str]:
    """Return the error of an attempt with an explanation, and its kind as in ``Report``.

    ``stopping`` is why the pilot stopped it. ``failed`` is what failed before its payload began, or after it
    ended. The pilot works in ``directory``, which needs ``least`` MB.
    """
    if stopping or ended.kind == "pilot":
        return error, "slot-walltime" if stopping == OUT_OF_TIME else "pilot"
    kind = _kind(failed, ended)
    words, is_nodes = disk_fault(directory, least, ended.max_workdir, ended.disk_room)
    return f"{error}\n{words}".rstrip(), "disk" if is_nodes and kind in _UNCLEAR else kind


def _kind(failed: AttemptFailedError | None, ended: Ended) -> str:
    if ended.error:
        return ended.kind
    kind = failed.kind if failed else AttemptFailedError.kind
    ended_well = kind == AttemptFailedError.kind and ended.exit_code is not None
    return "output" if ended_well else kind
