"""Claims on capacity: what changes take of what counters bound."""

from dataclasses import dataclass

from pilotage.model.records.states import State
from pilotage.model.values.slot_parts import BUNDLE
from pilotage.model.values.types import DESCRIBED


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Capacity that a change takes: of its records only as many are accepted as still fit."""

    __pydantic_config__ = DESCRIBED

    counter: str
    """Name of a counter (``model.counters``)."""
    key: tuple[str | int | None, ...]
    """A row of it; none stands for any value."""
    others: tuple[tuple[str | None, ...], ...] = ()
    """More rows that count together with it, each once: what comes to a storage besides what leaves it."""
    states: tuple[State, ...]
    """States whose records count."""
    limit: int
    """Most records in these states, or most parts of slots."""
    takes: int = 0
    """Parts of a slot that each transfer takes which claims (D8), or slots of each pilot (M5); 0: records are
    counted, not their parts."""
    slot: int = BUNDLE
    """Parts of a slot of transfers."""
