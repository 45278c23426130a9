"""Profiles: all that differs between batch systems of which commands are the entrance, as pure text."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from .commands import Outcome

State = Literal["waiting", "running", "ended", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a batch system is asked for: ``count`` jobs alike, as an array where it is above 1.

    ``memory`` (MB, 0 for no limit) and ``cores`` are for a whole job, ``walltime`` is in s. ``log`` is the
    path of the output, less the ending that :attr:`Profile.log_ending` gives it.
    """

    name: str
    count: int
    cores: int
    memory: float
    walltime: float
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as a batch system lists it, by its name there. ``queue`` is the partition, where it says it."""

    name: str
    state: State
    reason: str = ""
    exit_code: int | None = None
    queue: str = ""


class CommandFault(ValueError):
    """A batch system's answer cannot be understood."""


class Profile(Protocol):
    """A batch system's commands and their answers. Nothing here runs: commands are arguments, answers text.

    Jobs are known by the names that the batch system gives them, which :meth:`elements` tells.
    """

    kind: str
    most: int
    """Jobs of one array; 1 where there are no arrays."""
    index: str
    """The variable with the index in its array that a job sees, from 1."""

    def log_ending(self, count: int) -> str:
        """The ending of a log's path, so that each job of an array has its own."""

    def submit(self, request: Request) -> tuple[str, ...]:
        """The command that submits the script on its standard input."""

    def submitted(self, stdout: str) -> str:
        """The array's or job's number in the answer. Raises CommandFault."""

    def name(self, name: str) -> str:
        """A name as the batch system allows it."""

    def number(self, job: str) -> str:
        """The number of the array that a job belongs to, or its own."""

    def elements(self, number: str, count: int) -> list[str]:
        """The jobs of an array, or the one of a number, in the order of their indexes."""

    def listing(self, jobs: Collection[str]) -> tuple[str, ...]:
        """The command that lists this account's jobs: at least those of ``jobs`` that it knows.

        Without ``jobs`` it lists all that wait or run.
        """

    def is_listed(self, outcome: Outcome) -> bool:
        """Tell whether an answer to :meth:`listing` is one, also where some jobs are not known any more."""

    def listed(self, stdout: str) -> Mapping[str, Job]:
        """Jobs by number. Raises CommandFault."""

    def history(self, jobs: Collection[str]) -> tuple[tuple[str, ...], ...]:
        """Commands that tell of jobs which are listed no more, the next one where the one before fails."""

    def remembered(self, stdout: str) -> Mapping[str, Job]:
        """Jobs by number, of any command of :meth:`history`. Raises CommandFault."""

    def cancel(self, jobs: Collection[str]) -> tuple[str, ...]:
        """The command that ends jobs."""

    def capacity(self) -> tuple[str, ...]:
        """The command that tells the slots of the queue; empty where there is none."""

    def slots(self, stdout: str) -> int | None:
        """Slots that the answer tells, None where it does not."""

    def remedy(self, complaint: str) -> str:
        """Who can mend what a command complains of, and how; empty where that is not known."""
