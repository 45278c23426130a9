"""What all records with states have in common."""

from dataclasses import dataclass

from pilotage.model.values.types import DESCRIBED, RecordId, Settable


@dataclass(frozen=True, kw_only=True)
class Life:
    """A record since it was created."""

    __slots__ = ()
    __pydantic_config__ = DESCRIBED

    id: RecordId
    """Its number."""
    created: float
    """When it was created, in s since 1970."""
    since: float
    """When it entered its state, in s since 1970."""
    error: Settable[str] = ""
    """Why it, or its last attempt, failed or was cancelled."""


@dataclass(frozen=True, kw_only=True)
class LifeInAttempts(Life):
    """A record with attempts."""

    __slots__ = ()

    attempt: int
    """The current attempt, from 1."""
