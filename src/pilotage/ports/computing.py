"""The port to batch systems: submit, poll and cancel many pilots in one call; logs of submit pools (P11)."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOrder:
    """One pilot to submit.

    ``name`` is the pilot's name in the batch system. No other pilot of any server has it. ``cores`` and
    ``memory`` (MB, 0 for no limit) are for the whole pilot; ``walltime`` is in s. ``slots`` is the number of
    payloads at a time. Each runs in its own control group unless ``control_groups`` is False. ``token`` is
    secret. It must reach the agent on a way that no other user can read, so neither on command lines nor in
    environments. The agent exchanges it at its first call, and then it is worthless. After a lost answer the
    order comes again with another token. If a pilot with this name exists, do not submit another; return its
    reference.
    """

    pilot: int
    name: str
    token: str = field(repr=False)
    server_url: str
    cores: int = 1
    memory: float = 0
    walltime: float = 172_800
    slots: int = 1
    control_groups: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSize:
    """The resources of a pilot: cores, memory in MB (0: no limit) and walltime in s."""

    cores: int
    memory: float
    walltime: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The answer to one order: the batch system's ``reference`` to the pilot, or else the ``error``."""

    reference: str = ""
    error: str = ""


ElementState = Literal["waiting", "running", "stuck", "ended", "unknown"]
"""The state of a pilot according to its computing element. A ``stuck`` pilot is held, or has an error that
its batch system cannot resolve: a person must intervene there."""


Excess = Literal["", "memory", "walltime"]
"""The resource that a pilot used too much of, so that its batch system ended or held it; empty: none."""


MOST_MANIFEST = 2_000_000
"""Most bytes of a manifest of results that a pilot left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """Results of an attempt that a pilot left: the ``place`` in the spool, which keeps it for some ``days``,
    and the sealed ``manifest``, which any user of the site may have written."""

    place: str
    manifest: str
    days: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotStatus:
    """The status of a pilot in its batch system.

    ``unknown`` means that it cannot be seen now, which is not the same as ``ended``; ``missing`` is then true
    if the batch system answers, and does not have it. ``reason`` is the batch system's: why it waits, is
    stuck or ended. ``exit_code`` is the agent's, negative for a signal, or None if unknown. ``excess`` is the
    limit that it exceeded, if the batch system ended or held it for that. The end of a pilot is in doubt
    until it has been silent for ``end_doubt`` s, if the batch system reported it without its node: the pilot
    may still run there. ``results`` is all that an ended or missing pilot left in its site's spool.
    """

    state: ElementState
    reason: str = ""
    exit_code: int | None = None
    excess: Excess = ""
    end_doubt: float = 0
    missing: bool = False
    results: tuple[LeftBehind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """All slots of a queue, and its running and waiting jobs; None if unknown.

    ``everybody`` is true if other people's jobs are among them, otherwise only this account's pilots.
    ``scope`` names the queue in the batch system: two answers of one scope count the same jobs. Empty: no
    other answer does.
    """

    slots: int | None = None
    running: int | None = None
    waiting: int | None = None
    everybody: bool = False
    scope: str = ""

    @classmethod
    def of(cls, states: Collection[ElementState], slots: int | None = None, scope: str = "") -> Self:
        """Count this account's pilots. One that is stuck, or in an unknown state, still takes a place."""
        running, waiting = counts(states)
        return cls(slots=slots, running=running, waiting=waiting, scope=scope)


def counts(states: Iterable[ElementState]) -> tuple[int, int]:
    """Return how many jobs run, and how many others have not ended."""
    numbers = Counter(states)
    return numbers["running"], numbers.total() - numbers["running"] - numbers["ended"]


class ComputingElementPort(Protocol):
    """A batch system. An adapter is made with its computing element's options. It raises ValueError for an
    unknown one. Its class may have ``credential_options``: names of options that are credentials. Then
    persons and groups may have their own, and each gets an adapter. Without it, the federation is refused.

    Every call may block, and calls may come from several threads. Each raises OSError if the batch system
    cannot be reached and nothing was done. Each raises TimeoutError if it may have been done: then the same
    orders come again. ``adapters/computing/contract.py`` tests these promises.
    """

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Submit pilots. The answers are in the order of ``orders``, one for each."""

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Return the status of each pilot; unknown for a reference that this batch system never gave."""

    def cancel(self, references: Collection[str]) -> None:
        """End pilots and everything that they started. Ended or unknown ones are left alone."""

    def capacity(self) -> Capacity:
        """Return the slots of the queue and the jobs in it, other people's too if the batch system can."""


@runtime_checkable
class Forwarding(Protocol):
    """The ability of an adapter to hand whole jobs to another broker, which chooses for itself (M1)."""

    def explained(self, attempt: str) -> Sequence[str]:
        """Return that broker's decisions about an attempt, by its name there, as lines. Raises OSError."""


@runtime_checkable
class ResultsKeeper(Protocol):
    """The ability of an adapter to let pilots leave results in a spool that the server reaches.

    Calls raise OSError.
    """

    def read_left(self, place: str, number: int, start: int, size: int) -> str:
        """Return ``size`` bytes of a file from ``start`` on, or those up to its end, in base64."""

    def drop_left(self, places: Collection[str]) -> None:
        """Remove results from the spool."""


@runtime_checkable
class LeadingBack(Protocol):
    """The ability of an adapter to keep a tunnel open, so that pilots reach the server."""

    def closed_for(self) -> float:
        """Return for how many s the tunnel has been closed; 0: it is open, or there is none."""


@runtime_checkable
class ListMatching(Protocol):
    """The ability of an adapter to find out whether its batch system has resources for a pilot (P8)."""

    def resources(self, size: PilotSize) -> int | None:
        """Return how many such pilots would fit, now or later; None if unknown."""


_submitting: ContextVar[str | None] = ContextVar("submit_pool", default=None)


def pool_log(pool: str) -> logging.Logger:
    """Return the log of a submit pool."""
    return logging.getLogger(f"pilotage.submit_pools.{pool or 'none'}")


@contextmanager
def submitting(pool: str) -> Iterator[None]:
    """Let ``submission_log`` return a pool's log, in this thread, until the end of the block."""
    token = _submitting.set(pool)
    try:
        yield
    finally:
        _submitting.reset(token)


def submission_log(otherwise: logging.Logger) -> logging.Logger:
    """Return the log of the pool that this thread submits pilots for; ``otherwise`` if it does not."""
    pool = _submitting.get()
    return otherwise if pool is None else pool_log(pool)
