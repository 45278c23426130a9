"""Records that make the same transition with the same values go as one move."""

from collections.abc import Iterable, Mapping, Sequence

from pilotage.model.decision import Creation, Move, Value
from pilotage.model.states import State
from pilotage.model.work import Job, Transfer


def move(
    records: Iterable[Job] | Iterable[Transfer],
    target: State,
    cause: str,
    *,
    changes: Mapping[str, Value] | None = None,
    creates: Mapping[int, tuple[Creation, ...]] | None = None,
    next_attempt: bool = False,
    source: State | None = None,
) -> tuple[Move, ...]:
    """One move by ascending id, fenced by attempt; none for no records.

    All records must be of one kind and in one state: ``source`` where an earlier change of the same
    decision brings them there, else the state that they are in.
    """
    ordered: Sequence[Job | Transfer] = sorted(records, key=lambda record: record.id)
    if not ordered:
        return ()
    return (
        Move(
            kind="job" if isinstance(ordered[0], Job) else "transfer",
            ids=tuple(record.id for record in ordered),
            attempts=tuple(record.attempt for record in ordered),
            source=source or ordered[0].state,
            target=target,
            cause=cause,
            changes=changes or {},
            creates=creates or {},
            next_attempt=next_attempt,
        ),
    )
