"""What ports told of pilots and deliveries, for a world to carry to the policies that follow from it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSubmission:
    """What became of handing a pilot to its computing element: a ``reference``, or an ``error``."""

    pilot: int
    reference: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSighting:
    """What a computing element says of a pilot; ``reason`` and ``exit_code`` say how one ended."""

    pilot: int
    state: Literal["waiting", "running", "ended"]
    reason: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySighting:
    """What a mover says of one attempt of a transfer; ``error`` says why one failed."""

    transfer: int
    attempt: int
    state: Literal["moving", "delivered", "failed"]
    error: str = ""
