"""Observations of pilots and deliveries through ports, as records that a world carries to policies."""

from dataclasses import dataclass
from typing import Literal

from .types import DESCRIBED


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSubmission:
    """Result of submitting a pilot to its computing element: a reference, or an error."""

    __pydantic_config__ = DESCRIBED

    pilot: int
    """The pilot."""
    reference: str = ""
    """The batch system's own name for it."""
    error: str = ""
    """Why it was not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSighting:
    """State of a pilot as its computing element reports it."""

    __pydantic_config__ = DESCRIBED

    pilot: int
    """The pilot."""
    state: Literal["waiting", "running", "ended"]
    """Where the batch system has it."""
    reason: str = ""
    """How it ended, in the batch system's words."""
    exit_code: int | None = None
    """Exit code with which it ended; none: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySighting:
    """State of one attempt of a transfer as its mover reports it."""

    __pydantic_config__ = DESCRIBED

    transfer: int
    """The transfer."""
    attempt: int
    """The attempt that is told of."""
    state: Literal["moving", "delivered", "failed"]
    """Where its bytes are."""
    error: str = ""
    """Why it failed."""
