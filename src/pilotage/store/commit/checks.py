"""Refuse decisions that can never be right: with unknown transitions, columns, counters or choices."""

from collections.abc import Sequence

from pilotage.model.documents.decision import Create, Decision, Move, Touch
from pilotage.model.records.counters import COUNTERS, MATCHES_BY_SITE, Claim
from pilotage.model.records.states import Kind, is_allowed
from pilotage.store.database.errors import IllegalColumn, IllegalTransition
from pilotage.store.database.record_columns import settable
from pilotage.store.jobs.counters import KEY_COLUMNS
from pilotage.store.records import RECORDS

WRITABLE: dict[Kind, frozenset[str]] = {kind: settable(table) for kind, table in RECORDS.items()}
"""The columns that a decision may set."""


def check(decision: Decision) -> None:
    """Refuse a decision that could never be right. Raises IllegalTransition, IllegalColumn and ValueError."""
    for change in decision.changes:
        if isinstance(change, Move | Create):
            _check_claims(change.claims)
        if isinstance(change, Move):
            _check_move(change, len(decision.choices))
        if isinstance(change, Move | Touch):
            _check_changes(change)


def _check_move(move: Move, choices: int) -> None:
    if not is_allowed(move.kind, move.source, move.target):
        raise IllegalTransition(move.kind, move.source, move.target)
    if move.choice is not None and not 0 <= move.choice < choices:
        raise ValueError(f"a move rests on choice {move.choice}, the decision has {choices}")
    if move.binding != "early" and move.choice is None:
        raise ValueError(f"a move to {move.binding} binding rests on no choice, and so on no candidates")
    if move.at is not None and move.kind != "job":
        raise ValueError(f"a {move.kind} is at no queue that a move could ask for")


def _check_changes(change: Move | Touch) -> None:
    """Refuse columns that may not be set. A touch may not set columns that count its record."""
    keys = KEY_COLUMNS[change.kind] if isinstance(change, Touch) else ()
    allowed = WRITABLE[change.kind] - set(keys)
    if not allowed.issuperset(change.changes):
        raise IllegalColumn(change.kind, set(change.changes) - allowed, allowed)
    if isinstance(change, Move) and change.own_changes:
        # Records that move together are counted together.
        columns, allowed = set().union(*change.own_changes.values()), allowed - set(KEY_COLUMNS[change.kind])
        if not allowed.issuperset(columns):
            raise IllegalColumn(change.kind, columns - allowed, allowed)
    if change.changes_read is not None and "changes" not in allowed:
        raise ValueError(f"a {change.kind} has no changes that a {type(change).__name__} could ask for")
    if isinstance(change, Touch) and change.server_read is not None and change.kind != "pilot":
        raise ValueError(f"a {change.kind} has no server that a Touch could ask for")
    if change.attempts is not None and len(change.attempts) != len(change.ids):
        raise ValueError(f"{len(change.attempts)} attempts given for {len(change.ids)} {change.kind}s")


def _check_claims(claims: Sequence[Claim]) -> None:
    for claim in claims:
        _, columns = COUNTERS.get(claim.counter, (None, ()))
        length = 2 if claim.counter == MATCHES_BY_SITE else len(columns)
        if not length or len(claim.key) != length:
            raise ValueError(f"there is no counter {claim.counter} by {len(claim.key)} columns")
