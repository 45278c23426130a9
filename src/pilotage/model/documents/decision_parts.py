"""Commit decisions about many records in parts, so that none blocks the only writer for long."""

from collections.abc import Iterator
from dataclasses import replace

from pilotage.model.documents.decision import Change, Decision, Move

PART = 1000
"""Approximate number of records that one part moves: the writer is blocked for well under 100 ms."""


def parts(decision: Decision, size: int = PART) -> Iterator[Decision]:
    """Yield the changes of a decision in order, as decisions that move about ``size`` records each.

    The moves must not depend on each other. Tasks move together with the changes before them, so that no
    reader finds a live task after its last job has ended.
    """
    if sum(len(move.ids) for move in decision.moves) <= size:
        yield decision
        return
    part: list[Change] = []
    room = size
    for change in decision.changes:
        # Claims count what exists at the commit of their part, so half a claim would mean another limit.
        if not isinstance(change, Move) or change.claims or change.kind == "task":
            part.append(change)
            continue
        start = 0
        while start < len(change.ids):
            if not room:
                yield replace(decision, changes=tuple(part))
                part, room = [], size
            part.append(piece(change, start, start + room))
            start, room = start + room, max(0, room - (len(change.ids) - start))
    yield replace(decision, changes=tuple(part))


def piece(move: Move, start: int, end: int) -> Move:
    """Return the move for only some of its records, by their places."""
    ids = move.ids[start:end]
    return replace(
        move,
        ids=ids,
        attempts=None if move.attempts is None else move.attempts[start:end],
        own_changes={id_: move.own_changes[id_] for id_ in ids if id_ in move.own_changes},
        creates={id_: move.creates[id_] for id_ in ids if id_ in move.creates},
    )
