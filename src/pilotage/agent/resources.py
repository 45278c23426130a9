"""A pilot's share of its machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .payload.delegated_groups import DelegatedGroups
from .wire import Node


@dataclass(frozen=True)
class Resources:
    """A pilot's share of its machine: ``slots`` payloads at a time, ``cores`` and ``memory`` for all of them.

    Memory is in MB (0: no limit), ``walltime`` in s. It makes the jobs' directories in ``directory``;
    ``keep`` leaves them there. It takes jobs only while ``least_disk`` MB are free there. Payloads cannot see
    the folders in ``hidden``, nor GPUs other than their own. ``delegation`` makes a control group for each
    payload. Results that the server does not get go into ``spool``, up to ``spool_room`` MB, for
    ``spool_days``; None: nowhere.
    """

    cores: int = 1
    memory: float = 0
    walltime: float = 86_400
    slots: int = 1
    directory: Path = Path()
    keep: bool = False
    least_disk: float = 100
    hidden: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    node: Node = field(default_factory=Node)
    delegation: DelegatedGroups = field(default_factory=DelegatedGroups)
    spool: Path | None = None
    spool_room: float = 0
    spool_days: float = 14
