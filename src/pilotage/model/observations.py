"""What ports told of pilots and deliveries, for a world to carry to the policies that follow from it."""

from dataclasses import dataclass
from typing import Literal

from .types import DESCRIBED


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSubmission:
    """What became of handing a pilot to its computing element: a reference, or an error."""

    __pydantic_config__ = DESCRIBED

    pilot: int
    """The pilot."""
    reference: str = ""
    """The batch system's own name for it."""
    error: str = ""
    """Why it was not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSighting:
    """What a computing element says of a pilot."""

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
    """What a mover says of one attempt of a transfer."""

    __pydantic_config__ = DESCRIBED

    transfer: int
    """The transfer."""
    attempt: int
    """The attempt that is told of."""
    state: Literal["moving", "delivered", "failed"]
    """Where its bytes are."""
    error: str = ""
    """Why it failed."""
