"""Log lines about transitions of records: each names its record, and the task of it."""

import logging
from collections.abc import Iterable, Sequence

from pilotage.model.records.states import JobState
from pilotage.store.history.events import NO_TASK
from pilotage.store.history.history import TransitionKind

log = logging.getLogger("pilotage.transitions")

Transition = tuple[TransitionKind, int, Sequence[int]]
"""A kind of transition, the task of its records or none, and their numbers."""


def log_transitions(transitions: Iterable[Transition], actor: str) -> None:
    """Log what a commit did: tasks, and jobs that failed, as information; the rest to debug."""
    for kind, task, records in transitions:
        level = logging.INFO if kind.kind == "task" or kind.target == JobState.FAILED else logging.DEBUG
        if not log.isEnabledFor(level):
            continue
        change = f"{kind.source} → {kind.target}" if kind.source else kind.target
        reason = f"{actor}: {kind.cause}" if kind.cause else actor
        about = {"task": task} if task != NO_TASK else {}
        for record in records:
            log.log(
                level,
                "%s %d: %s, by %s",
                kind.kind,
                record,
                change,
                reason,
                extra={**about, kind.kind: record},
            )
