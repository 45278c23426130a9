"""Profiles: all that differs between batch systems of which commands are the entrance, as pure text."""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pilotage.ports.computing import ElementState

from .commands import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to a batch system: ``count`` jobs alike, as an array where it is above 1.

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
class BatchJob:
    """A job as a batch system lists it, by its name there. ``queue`` is the partition, where it says it.

    ``explained`` tells whether ``reason`` has all that the batch system says of a job that does not run.
    """

    name: str
    state: ElementState
    reason: str = ""
    exit_code: int | None = None
    queue: str = ""
    explained: bool = True


DOUBTFUL = (
    "timed out",
    "timeout",
    "time-out",
    "no response",
    "end of file",
    "connection reset",
    "connection closed",
    "broken pipe",
    "zero bytes were transmitted or received",
)
"""Parts of complaints after which a batch system may have taken a job, or may take it yet."""


class CommandFault(ValueError):
    """A batch system's answer cannot be understood."""


class Profile(ABC):
    """A batch system's commands and their answers. Nothing here runs: commands are arguments, answers text.

    Jobs are known by the names that the batch system gives them, which :meth:`elements` tells.
    """

    kind: str
    most: int = 200
    """Jobs of one array; 1 where there are no arrays."""
    index: str
    """The variable with the index in its array that a job sees, from 1."""
    remedies: Sequence[tuple[str, str]] = ()
    """Who can mend what, by what a complaint holds, in lower case; the first that fits is told."""

    queues: frozenset[str] = frozenset()
    """The queues that pilots go to; empty: whichever the batch system chooses."""

    doubtful: Sequence[str] = DOUBTFUL
    """Parts of complaints, in lower case, after which nobody knows whether a job was taken."""

    @abstractmethod
    def log_ending(self, count: int) -> str:
        """The ending of a log's path, so that each job of an array has its own."""

    @abstractmethod
    def submit(self, request: Request) -> tuple[str, ...]:
        """The command that submits the script on its standard input."""

    @abstractmethod
    def submitted(self, stdout: str) -> str:
        """The array's or job's number in the answer.

        Raises CommandFault unless exactly one number in it can be the job's, see :func:`only_number`.
        """

    def same(self, job: str) -> str:
        """The part of a job's name in which its spellings agree: all of it, unless a profile differs."""
        return job

    def name(self, name: str) -> str:
        """A name as the batch system allows it: any, unless a profile says otherwise."""
        return name

    @abstractmethod
    def number(self, job: str) -> str:
        """The number of the array that a job belongs to, or its own."""

    @abstractmethod
    def elements(self, number: str, count: int) -> list[str]:
        """The jobs of an array, or the one of a number, in the order of their indexes."""

    @abstractmethod
    def listing(self, jobs: Collection[str]) -> tuple[str, ...]:
        """The command that lists this account's jobs: at least those of ``jobs`` that it knows.

        Without ``jobs`` it lists all that wait or run.
        """

    def is_listed(self, outcome: Outcome) -> bool:
        """Return whether an answer to :meth:`listing` is one, also where some jobs are not known any more."""
        return outcome.code == 0

    @abstractmethod
    def listed(self, stdout: str) -> Mapping[str, BatchJob]:
        """Jobs by number. Raises CommandFault."""

    def history(self, jobs: Collection[str]) -> tuple[tuple[str, ...], ...]:  # noqa: ARG002
        """Commands that tell of jobs which are listed no more, the next one where the one before fails.

        None, unless a profile says otherwise: then the listing has what ended.
        """
        return ()

    def remembered(self, stdout: str) -> Mapping[str, BatchJob]:
        """Jobs by number, of any command of :meth:`history`. Raises CommandFault."""
        return self.listed(stdout)

    def reasons(self, jobs: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002
        """The command that tells why jobs do not run; empty where the listing says it."""
        return ()

    def explained(self, stdout: str) -> Mapping[str, str]:  # noqa: ARG002
        """Reasons by number, of the answer to :meth:`reasons`."""
        return {}

    @abstractmethod
    def cancel(self, jobs: Collection[str]) -> tuple[str, ...]:
        """The command that ends jobs."""

    def capacity(self) -> tuple[str, ...]:
        """The command that tells the slots of the queue; empty where there is none."""
        return ()

    def slots(self, stdout: str) -> int | None:  # noqa: ARG002
        """Slots that the answer tells, None where it does not."""
        return None

    def remedy(self, complaint: str) -> str:
        """Say who can mend what a command complains of, and how; empty where that is not known."""
        return next((remedy for words, remedy in self.remedies if words in complaint.lower()), "")


def only_number(answer: str, *patterns: str) -> str:
    """The one number that lines of an answer give, each as one of these patterns with a group for it.

    Sites print notes before and after the batch system's own words. Empty where no line fits, or where lines
    that fit differ: then any of them may be a note's.
    """
    lines = [line.strip() for line in answer.split("\n")]
    found = {
        match[1] for line in lines for pattern in patterns if (match := re.fullmatch(pattern, line, re.ASCII))
    }
    return found.pop() if len(found) == 1 else ""


def own(*command: str) -> tuple[str, ...]:
    """A command of which the last argument becomes the account's own name."""
    return ("sh", "-c", 'exec "$0" "$@" "$(id -un)"', *command)


def queue_names(option: str) -> frozenset[str]:
    """The queues of an option that may list several with commas."""
    return frozenset(name for name in option.split(",") if name)


def plain_name(name: str) -> str:
    """A name of letters, digits and ``_.+-`` that begins with a letter."""
    clean = re.sub(r"[^A-Za-z0-9_.+-]", "_", name)
    return clean if clean[:1].isalpha() else f"p{clean}"
