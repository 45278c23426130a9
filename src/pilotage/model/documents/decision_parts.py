"""Decisions about many records, to be committed part by part: none holds the only writer for long."""

from collections.abc import Iterator
from dataclasses import replace

from .decision import Change, Decision, Move

PART = 1000
"""Records that one part moves, and a few more: the writer is held for well under 100 ms."""


def parts(decision: Decision, most: int = PART) -> Iterator[Decision]:
    """Yield the changes of a decision in their order, as decisions that move about ``most`` records each.

    Only for moves that do not rest on each other. Tasks move together with what comes before them, so that
    nobody finds a task whose last job has ended and which has not.
    """
    if sum(len(move.ids) for move in decision.moves) <= most:
        yield decision
        return
    part: list[Change] = []
    room = most
    for change in decision.changes:
        # Claims count against what is there when the part is committed: cut in two they would mean another
        # bound.
        if not isinstance(change, Move) or change.claims or change.kind == "task":
            part.append(change)
            continue
        start = 0
        while start < len(change.ids):
            if not room:
                yield replace(decision, changes=tuple(part))
                part, room = [], most
            part.append(_piece(change, start, start + room))
            start, room = start + room, max(0, room - (len(change.ids) - start))
    yield replace(decision, changes=tuple(part))


def _piece(move: Move, start: int, end: int) -> Move:
    ids = move.ids[start:end]
    return replace(
        move,
        ids=ids,
        attempts=None if move.attempts is None else move.attempts[start:end],
        own_changes={id_: move.own_changes[id_] for id_ in ids if id_ in move.own_changes},
        creates={id_: move.creates[id_] for id_ in ids if id_ in move.creates},
    )
