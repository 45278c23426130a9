"""The port to batch systems: pilots are submitted, polled and cancelled, many in one call."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOrder:
    """One pilot to submit.

    ``name`` is the pilot's in the batch system: no other pilot of any server has it. ``cores`` and ``memory``
    (MB, 0 for no limit) are for the whole pilot, ``walltime`` is in s, ``slots`` counts the payloads that it
    runs side by side, each in a control group of its own unless ``control_groups`` is False. ``token`` is
    secret: it reaches the agent by a way that no other user can read, and neither command lines nor
    environments are such a way. The agent exchanges it at its first call, and it is worth nothing from then
    on. An order is given again, with another token, where its answer was lost: a pilot of this name that is
    there already is not submitted twice, and its reference is the answer.
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
"""The state of a pilot as its computing element tells it.

``stuck``: it is held, or in an error that its batch system does not get over: it does not start unless
somebody intervenes there.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotStatus:
    """The status of a pilot in its batch system.

    ``unknown`` means that it cannot be seen now, which is not the same as ``ended``. ``reason`` says why it
    waits, is stuck or ended, as the batch system puts it; ``exit_code`` is that of the agent, negative for a
    signal, or None where nobody knows it.
    """

    state: ElementState
    reason: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Slots of a batch system in all, and our pilots running and waiting there; None where unknown."""

    slots: int | None = None
    running: int | None = None
    waiting: int | None = None


class ComputingElementPort(Protocol):
    """A batch system. An adapter is made with its computing element's options, and raises ValueError where it
    does not know one.

    Every call may block, and calls may come from several threads. Each raises OSError where the batch system
    cannot be reached and nothing was done, TimeoutError where nobody knows whether it was: the same orders
    come again then. ``computing/contract.py`` tests these promises.
    """

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Submit pilots; the answers are in the order of ``orders``, one for each."""

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Tell the status of each pilot, unknown for a reference that this batch system never gave."""

    def cancel(self, references: Collection[str]) -> None:
        """End pilots and all that they started; those that have ended, or are unknown, are left alone."""

    def capacity(self) -> Capacity:
        """Tell how much the batch system takes, as far as it says so."""


@runtime_checkable
class Forwarding(Protocol):
    """An ability of adapters that hand whole jobs to another broker, which chooses for itself (M1)."""

    def explained(self, attempt: str) -> Sequence[str]:
        """Tell in lines what that broker decided of an attempt, by its name there. Raises OSError."""


@runtime_checkable
class ListMatching(Protocol):
    """An ability of adapters whose batch system can tell whether it has a resource for a pilot (P8)."""

    def resources(self, size: PilotSize) -> int | None:
        """Count what would take such a pilot, now or later; None where that is not known."""
