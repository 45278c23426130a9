"""What histories and events say of a decision: each meaning gets its number before the commit."""

from collections.abc import Iterator
from itertools import chain

from pilotage.model.documents.decision import KINDS, Create, Decision, Move, NoteBreakers, Touch
from pilotage.model.records.states import FIRST, JobState, TaskState
from pilotage.model.records.work import NewJob, NewTask
from pilotage.store.history.history import TransitionKind

BY_A_PERSON = "a person asked for it"
"""Why records change without a transition, in events."""


def meanings(decision: Decision, actor: str) -> Iterator[TransitionKind]:
    """Yield the meanings of a decision's transitions, for the history of their records."""
    for change in decision.changes:
        if isinstance(change, NoteBreakers):
            for breaker in change.changes:
                yield TransitionKind.of("breaker", breaker.source, breaker.target, breaker.cause, actor)
        if isinstance(change, Move):
            yield TransitionKind.of(change.kind, change.source, change.target, change.cause, actor)
        if isinstance(change, Touch) and change.event:
            yield TransitionKind.of(change.kind, None, change.event, BY_A_PERSON, actor)
        if isinstance(change, Move | Create):
            creations = change.records if isinstance(change, Create) else chain(*change.creates.values())
            records = list(creations)
            for kind in {KINDS[type(record)] for record in records if type(record) in KINDS}:
                yield TransitionKind.of(kind, None, FIRST[kind], change.cause, actor)
            if any(isinstance(record, NewJob) and record.throttled for record in records):
                yield TransitionKind.of("job", None, JobState.THROTTLED, change.cause, actor)
            if any(isinstance(record, NewTask) and record.is_chained for record in records):
                yield TransitionKind.of("task", None, TaskState.WAITING, change.cause, actor)
