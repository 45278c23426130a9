"""Observations of pilots, their results and deliveries through ports, as records in a world for policies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pilotage.model.values.types import DESCRIBED, Bytes, NonNegative, RecordId

Fault = Literal["", "source", "destination", "either", "file", "altered"]
"""Who is to blame for a failed delivery: the storage at one end, one of the two, or the file. ``altered``
means that the file at its source has wrong content. Empty: unknown."""


OF_STORAGES: frozenset[Fault] = frozenset({"source", "destination", "either"})
"""Faults for which storages are to blame, and no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSubmission:
    """Result of submitting a pilot to its computing element: a reference, or an error."""

    __pydantic_config__ = DESCRIBED

    pilot: int
    """The pilot."""
    reference: str = ""
    """The batch system's name for it."""
    error: str = ""
    """Why it was refused."""
    unknown: bool = False
    """Whether the answer was lost, so that it is submitted again under its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSighting:
    """State of a pilot as its computing element reports it."""

    __pydantic_config__ = DESCRIBED

    pilot: int
    """The pilot."""
    state: Literal["waiting", "running", "stuck", "ended", "unknown"]
    """Its state in the batch system. ``stuck``: it cannot start before a person intervenes there."""
    reason: str = ""
    """Why it waits or is stuck, or how it ended, in the batch system's words."""
    exit_code: int | None = None
    """Its exit code; none: unknown."""
    excess: Literal["", "memory", "walltime"] = ""
    """The limit for which its batch system ended or held it; empty: none."""
    end_doubt: NonNegative = 0
    """s of silence before its end counts, because its batch system only lost its node."""
    missing: bool = False
    """Whether its batch system answers, and does not list it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableCredential:
    """A credential of a person or group with which this process cannot submit pilots now (P9)."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    credential: str
    """The person or group."""
    reason: str
    """What is wrong with it, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """The last report of a queue's server on its batch system; None: not reported."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    server: str = ""
    """The server's name; empty if the queue has only one."""
    slots: int | None = None
    """All slots."""
    running: int | None = None
    """Running jobs, other people's too if ``everybody``; otherwise the account's pilots."""
    waiting: int | None = None
    """Waiting jobs, counted in the same way."""
    everybody: bool = False
    """Whether the batch system shows other people's jobs (M5)."""
    scope: str = ""
    """The queue in the batch system: two reports of one scope count the same jobs. Empty: no other does."""
    answered: float | None = None
    """When it was asked for this report, in s since 1970; none: it never answered."""
    error: str = ""
    """Why it did not answer the last question; empty: it did."""
    pilots: Mapping[str, int] = field(default_factory=dict)
    """Our pilots among these jobs by queue: those of other queues count where these have the same scope
    (M5)."""
    submitting: Mapping[str, int] = field(default_factory=dict)
    """How many of them wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListMatch:
    """A server's answer about resources for a pilot (P8)."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """The queue."""
    server: str = ""
    """The server of its computing element; empty if it has only one."""
    cores: int
    """Cores of the pilot."""
    memory: float
    """MB of the pilot; 0: no limit."""
    walltime: float
    """s of the pilot."""
    resources: int | None = None
    """Resources that would accept it; none: the batch system cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    """A pool's running and waiting submissions (P5)."""

    __pydantic_config__ = DESCRIBED

    pool: str
    """The pool."""
    submissions: int
    """Their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationSighting:
    """Result of a request to a catalogue to register an attempt of a publication."""

    __pydantic_config__ = DESCRIBED

    publication: int
    """The publication."""
    attempt: int
    """The attempt that it is about."""
    error: str = ""
    """Why it was not registered; empty: it was."""
    refused: bool = False
    """Whether the catalogue would refuse it again, so that it is not retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySighting:
    """State of one attempt of a transfer as its mover reports it."""

    __pydantic_config__ = DESCRIBED

    transfer: int
    """The transfer."""
    attempt: int
    """The attempt that it is about."""
    state: Literal["moving", "delivered", "failed"]
    """Where its bytes are."""
    error: str = ""
    """Why it failed."""
    fault: Fault = ""
    """Who is to blame: the source, the destination, either of them, or only the file, also if ``altered``
    at its source; empty: unknown."""
    way: str = ""
    """How a delivered file came: streamed or copied by the storages themselves, why, and by which mover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceSighting:
    """A storage's answer to a question about its free space (B18)."""

    __pydantic_config__ = DESCRIBED

    storage: str
    """The storage."""
    url: str
    """Its URL."""
    time: float
    """When it answered, or when the question was given up, in s since 1970."""
    free: int | None = None
    """Free bytes; none: not reported."""
    total: int | None = None
    """Total bytes; none: not reported."""
    problem: str = ""
    """Why it reported nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingResults:
    """Results of an attempt that a pilot left in the spool because it reached no server.

    The job stays with that pilot, although the pilot has ended. The store has the record before it learns
    that the pilot ended.
    """

    __pydantic_config__ = DESCRIBED

    job: RecordId
    """The job."""
    attempt: int
    """The attempt."""
    pilot: RecordId
    """The pilot that left them."""
    queue: str
    """The pilot's queue."""
    size: Bytes
    """Bytes of the outputs."""
    since: float
    """When a server found them, in s since 1970 UTC."""
    until: float
    """When they are given up, in s since 1970 UTC."""
    problem: str = ""
    """Why the last try to take them failed; empty: it did not."""
