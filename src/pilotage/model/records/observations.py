"""Observations of pilots and deliveries through ports, as records that a world carries to policies."""

from dataclasses import dataclass
from typing import Literal

from pilotage.model.values.types import DESCRIBED

Fault = Literal["", "source", "destination", "either", "file", "altered"]
"""Who is to blame for a delivery that failed: the storage at one end, or one of both, or the file.

``altered``: what was read of it at its source is not what must be there. Empty: not known.
"""


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
    unknown: bool = False
    """Whether nobody knows if it was taken: the answer was lost, and it is submitted again by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSighting:
    """State of a pilot as its computing element reports it."""

    __pydantic_config__ = DESCRIBED

    pilot: int
    """The pilot."""
    state: Literal["waiting", "running", "stuck", "ended", "unknown"]
    """Where the batch system has it; ``stuck``: it does not start it unless somebody intervenes there."""
    reason: str = ""
    """Why it waits or is stuck, or how it ended, in the batch system's words."""
    exit_code: int | None = None
    """Exit code with which it ended; none: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """The last report of a queue's server on its batch system; None where it does not say."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    server: str = ""
    """The server's name; empty where the queue has one alone."""
    slots: int | None = None
    """Slots in all."""
    running: int | None = None
    """Our pilots that run."""
    waiting: int | None = None
    """Our pilots that wait."""
    answered: float | None = None
    """When it was asked what it told, in s since 1970; none: it never answered."""
    error: str = ""
    """Why it did not answer when it was asked last; empty: it did."""
    pilots: int = 0
    """Pilots at the site, as they were recorded when it was asked (M5)."""
    submitting: int = 0
    """Those of them that were created or submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListMatch:
    """The answer of a server that was asked for resources for a pilot (P8)."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    server: str = ""
    """The server of its computing element; empty where it has only one."""
    cores: int
    """Cores of the pilot."""
    memory: float
    """MB of the pilot; 0: no limit."""
    walltime: float
    """s of the pilot."""
    resources: int | None = None
    """Resources that would take it; none: the batch system cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentServer:
    """A server that did not answer a list-match, and is not asked before its rest is over (P8)."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    server: str
    """The server of its computing element; empty where it has only one."""
    times: int
    """How often it did not answer, one time after the other."""
    until: float
    """The end of its rest, in s since 1970."""
    error: str
    """What was said instead of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    """Submissions of a pool that are under way or wait (P5)."""

    __pydantic_config__ = DESCRIBED

    pool: str
    """The pool."""
    submissions: int
    """How many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationSighting:
    """Result of asking a catalogue to register an attempt of a publication."""

    __pydantic_config__ = DESCRIBED

    publication: int
    """The publication."""
    attempt: int
    """The attempt that is told of."""
    error: str = ""
    """Why it was not registered; empty: it was."""
    refused: bool = False
    """Whether it would be refused again: it is not tried any more."""


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
    fault: Fault = ""
    """Who is to blame: the source, the destination, either of them, or the file alone, also as ``altered`` at
    its source; empty: not known."""
    way: str = ""
    """How a file that was delivered came: streamed or by the storages themselves, why, by which mover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceSighting:
    """Answer of a storage that was asked for its free space (B18)."""

    __pydantic_config__ = DESCRIBED

    storage: str
    """The storage."""
    url: str
    """Its URL."""
    time: float
    """When it answered, or was given up, in s since 1970."""
    free: int | None = None
    """Bytes that are free; none: it did not tell."""
    total: int | None = None
    """Bytes that it has in all; none: it did not tell."""
    problem: str = ""
    """Why it did not tell."""
