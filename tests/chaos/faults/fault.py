"""A fault: how it starts, how it stops, and what must hold nevertheless."""

import random
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar

from tests.chaos.system import System


class Fault(ABC):
    """Something that goes wrong for some seconds. ``drawn`` chooses its victim."""

    holds: ClassVar[str]
    """What must hold beside the verdict on the whole storm."""
    span: ClassVar[tuple[float, float]]
    """Least and most seconds that it lasts."""
    is_absence: ClassVar[bool] = False
    """Whether it takes away nothing but ways and servers, for a time: all that computes goes on."""

    away: Collection[int] = ()
    """Servers by number that start no job while it lasts: no pilot reaches them, they do not reach the
    database, or their pilots have no disk."""
    site: str = ""
    """The only site that it concerns; empty: all."""
    jobs: Collection[int] | None = None
    """The jobs that it affects; None: all that are at its site."""

    def __init__(self, system: System, drawn: random.Random) -> None:
        self.system, self.drawn = system, drawn

    @classmethod
    def lacking(cls, system: System) -> str:  # noqa: ARG003
        """Say what this machine lacks for it; empty where it has all."""
        return ""

    @abstractmethod
    def start(self) -> bool:
        """Begin. Returns False if there is no victim now."""

    def stop(self) -> None:  # noqa: B027
        """End what lasts; most faults are over at once."""


class Nothing(Fault):
    """No fault: how long new work takes by itself, for comparison."""

    holds = "everything"
    span = (0.0, 0.1)
    is_absence = True

    def start(self) -> bool:
        """Do nothing."""
        return True
