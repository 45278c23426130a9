"""What every pass of a step is given, and how its decision is committed."""

import secrets
import time
from dataclasses import dataclass

from pilotage.model.decision import Decision
from pilotage.store import Store


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: its time (s since 1970, UTC), its random seed, and how many records it may take."""

    time: float
    seed: int
    batch: int

    @classmethod
    def begin(cls, batch: int) -> "Pass":
        """A pass that starts now."""
        return cls(time.time(), new_seed(), batch)


def new_seed() -> int:
    """A seed for a world: it is stored with the decision, so that the decision can be made again."""
    return secrets.randbits(32)


def take(store: Store, decision: Decision, actor: str) -> int:
    """Commit a decision; returns how many records were moved or made."""
    if not decision.changes and not decision.choices:
        return 0
    committed = store.commit(decision, actor)
    moved = sum(len(ids) for ids in committed.accepted)
    made = sum(1 for ids in committed.created for record in ids if record is not None)
    return moved + made
