"""Combine several decisions from one world."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pilotage.model.documents.decision import Change, Choice, Committed, Decision, Move
from pilotage.model.documents.world import World


def joined(name: str, world: World, decisions: list[Decision]) -> Decision:
    """Return several decisions from one world as one. The indexes of choices are shifted."""
    changes: list[Change] = []
    choices: list[Choice] = []
    notes: dict[str, object] = {}
    for decision in decisions:
        changes.extend(_shifted(decision.changes, len(choices)))
        choices.extend(decision.choices)
        notes.update(decision.notes)
    return Decision(
        step=name,
        time=world.time,
        seed=world.seed,
        changes=tuple(changes),
        choices=tuple(choices),
        notes=notes,
    )


def parted(committed: Committed, decisions: Iterable[Decision]) -> Iterator[Committed]:
    """Yield the commit's results for each of several joined decisions, without records that were handed
    back."""
    begin = 0
    for decision in decisions:
        end = begin + len(decision.changes)
        yield Committed(accepted=committed.accepted[begin:end], created=committed.created[begin:end])
        begin = end


def _shifted(changes: tuple[Change, ...], by: int) -> Iterator[Change]:
    for change in changes:
        if isinstance(change, Move) and change.choice is not None:
            yield replace(change, choice=change.choice + by)
        else:
            yield change
