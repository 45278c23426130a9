"""Profiles: everything that differs between command-driven batch systems, as pure text functions."""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Generic, NamedTuple, TypeVar

from pilotage.adapters.computing.batch.commands import Outcome
from pilotage.adapters.computing.batch.options import BatchOptions
from pilotage.ports.computing import ElementState, Excess, PilotStatus

Options = TypeVar("Options", bound=BatchOptions)
_JOB = re.compile(r"\d[\w.\[\]-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to a batch system: ``count`` similar jobs, as an array if there are several.

    ``memory`` (MB, 0 for no limit) and ``cores`` are per job; ``walltime`` is in s. ``log`` is the path of
    the output, without the ending that ``Profile.log_ending`` adds.
    """

    name: str
    count: int
    cores: int
    memory: float
    walltime: float
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A job in a batch system's listing, with its name there. ``queue`` is the partition, if the listing has
    it.

    ``explained`` is true if ``reason`` holds everything that the batch system knows about a job that does not
    run. ``excess`` is the limit that it exceeded, if it was ended for that. ``end_doubt``: see
    ``PilotStatus``.
    """

    name: str
    state: ElementState
    reason: str = ""
    exit_code: int | None = None
    queue: str = ""
    explained: bool = True
    excess: Excess = ""
    end_doubt: float = 0

    def status(self, *reasons: str) -> PilotStatus:
        """Return the status of this job's pilot. ``reasons`` come after the job's own."""
        return PilotStatus(
            state=self.state,
            reason="; ".join(filter(None, (self.reason, *reasons))),
            exit_code=self.exit_code,
            excess=self.excess,
            end_doubt=self.end_doubt,
        )


class Reference(NamedTuple):
    """A job of a batch system, the name that it was submitted with, and its pilot.

    A number alone is not enough, because it may be reused for another job. The text form leaves out the
    pilot if it equals the name. In an array it does not.
    """

    job: str
    name: str
    pilot: str

    @classmethod
    def parse(cls, text: str) -> "Reference | None":
        """Parse the text form. Return None for any other text."""
        parts = text.split("/")
        if len(parts) not in (2, 3) or not _JOB.fullmatch(parts[0]) or not all(parts):
            return None
        return cls(parts[0], parts[1], parts[-1])

    def __str__(self) -> str:
        return "/".join(self if self.name != self.pilot else self[:2])


def references_in(texts: Iterable[str]) -> dict[str, Reference]:
    """Return the references of these text forms. Leave out any other text."""
    return {text: reference for text in texts if (reference := Reference.parse(text))}


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
"""Parts of error messages that leave open whether the batch system accepted a job, or will."""


PRIVATE = "other people's jobs are hidden"
"""The answer to ``Profile.population`` has this line if it counts only this account's jobs."""

COUNTED = "printf '%s\\n' \"$states\" | grep . | sort | uniq -c"
"""The end of a shell script that counts the lines of its variable ``states``."""


class CommandFault(ValueError):
    """A batch system gave an answer that cannot be understood."""


class Profile(ABC, Generic[Options]):
    """A batch system's commands and answers. A profile runs nothing: commands are lists of arguments, answers
    are text.

    The batch system names the jobs; ``elements`` returns their names.
    """

    kind: str
    array_size: int = 200
    """Most jobs of one array; 1 if there are no arrays."""
    index: str
    """The environment variable with a job's index in its array, from 1."""
    remedies: Sequence[tuple[str, str]] = ()
    """Who can mend what: pairs of a part of a message, in lower case, and the advice. The first match
    counts."""

    refusals: Sequence[str] = ()
    """Parts of messages, in lower case, by which the submit command always says that it made no job."""

    queue_option: ClassVar[str] = "queue"
    """The option that names the queues."""

    states: Mapping[str, ElementState] = {}
    """The meanings of the states of jobs. Any other is unknown."""

    program: str = ""
    """The submit command."""
    answers: Sequence[str] = ()
    """Patterns of lines by which it says the number of an array or job, see ``only_number``."""
    element: str = "{}"
    """The name of a job of an array, from the array's number and the job's index."""
    array_log: str = ""
    """The ending of an array's logs, which gives each job its own."""
    canceller: Sequence[str]
    """The command that ends the jobs that are appended to it."""
    partly: Sequence[str] = ()
    """Parts of messages of a listing that fails for some jobs, and is valid for the others."""

    doubtful: Sequence[str] = DOUBTFUL
    """Parts of messages, in lower case, that leave open whether a job was accepted."""

    def __init__(self, options: Options) -> None:
        self._options = options
        # Without hosts and servers, perhaps with wildcards; empty: the batch system chooses.
        self.queues = queue_names(getattr(options, self.queue_option, ""))

    def log_ending(self, count: int) -> str:
        """Return the ending of the path of a job's log, or of an array's logs."""
        return ".log" if count == 1 else self.array_log

    @abstractmethod
    def submit(self, request: Request) -> tuple[str, ...]:
        """Return the command that submits the script from its standard input."""

    def submitted(self, stdout: str) -> str:
        """Return the number of the array or job in the answer.

        Raises CommandFault unless exactly one number can be the job's, see ``only_number``.
        """
        if number := only_number(stdout, *self.answers):
            return number
        raise CommandFault(f"{self.program} answered {stdout[:200]!r}, which is no job's number")

    def same(self, job: str) -> str:
        """Return the part of a job's name that all its spellings share: by default all of it."""
        return job

    def name(self, name: str) -> str:
        """Return a name in the form that the batch system allows: by default any."""
        return name

    def number(self, job: str) -> str:
        """Return the number of a job's array, or of the job itself: by default the first digits."""
        return re.split(r"\D", job, maxsplit=1)[0]

    def elements(self, number: str, count: int) -> list[str]:
        """Return the jobs of an array in order of index, or the single job of a number."""
        return [number] if count == 1 else [self.element.format(number, at) for at in range(1, count + 1)]

    @abstractmethod
    def listing(self, jobs: Collection[str]) -> tuple[str, ...]:
        """Return the command that lists this account's jobs, at least the ``jobs`` that still exist.

        Without ``jobs`` it lists all waiting and running jobs.
        """

    def is_listed(self, outcome: Outcome) -> bool:
        """Return whether the answer to ``listing`` is valid, even if the batch system has forgotten some
        jobs."""
        return outcome.code == 0 or (
            outcome.code is not None and any(words in outcome.stderr for words in self.partly)
        )

    @abstractmethod
    def listed(self, stdout: str) -> Mapping[str, BatchJob]:
        """Return jobs by number. Raises CommandFault."""

    def history(self, jobs: Collection[str]) -> tuple[tuple[str, ...], ...]:  # noqa: ARG002
        """Return commands that look up jobs that the listing lacks. Each is a fallback for the one before.

        Empty by default: then the listing includes ended jobs.
        """
        return ()

    def remembered(self, stdout: str) -> Mapping[str, BatchJob]:
        """Return jobs by number, from any command of ``history``. Raises CommandFault."""
        return self.listed(stdout)

    def reasons(self, jobs: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Return the command that prints why jobs do not run; empty if the listing has the reasons."""
        return ()

    def explained(self, stdout: str) -> Mapping[str, str]:  # noqa: ARG002
        """Return reasons by number, from the answer to ``reasons``."""
        return {}

    def cancel(self, jobs: Collection[str]) -> tuple[str, ...]:
        """Return the command that ends jobs. It ignores ended jobs."""
        return (*self.canceller, *jobs)

    def capacity(self) -> tuple[str, ...]:
        """Return the command that prints the slots of the queue; empty if there is none."""
        return ()

    def slots(self, stdout: str) -> int | None:  # noqa: ARG002
        """Return the slots in the answer, None if it has none."""
        return None

    def population(self) -> tuple[str, ...]:
        """Return the command that counts everybody's jobs in ``queues``; empty if there is none."""
        return ()

    def populated(self, stdout: str) -> tuple[int, int] | None:
        """Return everybody's running and waiting jobs, from the answer to ``population``.

        By default, each line has a number and a state. Return None if the batch system shows only this
        account's jobs.
        """
        running = waiting = 0
        for line in stdout.splitlines():
            number, _, state = line.strip().partition(" ")
            if number.isdecimal() and (meaning := self.state(state)) != "ended":
                running += int(number) if meaning == "running" else 0
                waiting += int(number) if meaning != "running" else 0
        return None if PRIVATE in stdout else (running, waiting)

    def state(self, word: str) -> ElementState:
        """Return the meaning of a job's state in the answer to ``population``."""
        return self.states.get(word, "unknown")

    def may_hold(self, job: BatchJob) -> bool:
        """Return whether a job may have been submitted to ``queues``. Its listing may name no queue."""
        names = job.queue.split(",") if job.queue and self.queues else []
        return not names or any(fnmatchcase(name, pattern) for name in names for pattern in self.queues)

    def is_refusal(self, complaint: str) -> bool:
        """Return whether a message, in lower case, means that the submit command made no job."""
        return bool(self.remedy(complaint)) or any(words in complaint for words in self.refusals)

    def remedy(self, complaint: str) -> str:
        """Return who can mend an error, and how; empty if that is unknown."""
        return next((remedy for words, remedy in self.remedies if words in complaint.lower()), "")


def only_number(answer: str, *patterns: str) -> str:
    """Return the one number in the lines of an answer that match these patterns, each with a group for the
    number.

    Sites print notes before and after the batch system's own lines. Return an empty text if no line matches,
    or if matching lines differ: then any of them may be a note.
    """
    lines = [line.strip() for line in answer.split("\n")]
    numbers = {
        match[1] for line in lines for pattern in patterns if (match := re.fullmatch(pattern, line, re.ASCII))
    }
    return numbers.pop() if len(numbers) == 1 else ""


def with_account(*command: str) -> tuple[str, ...]:
    """Return a command with the account's name as its last argument."""
    return ("sh", "-c", 'exec "$0" "$@" "$(id -un)"', *command)


def exit_code(status: str) -> int | None:
    """Return the exit code in a shell's status, which is above 128 for a signal; None for other texts."""
    code = int(status) if status.isdecimal() else None
    return 128 - code if code and code > 128 else code


def queue_names(option: str) -> frozenset[str]:
    """Return the queues in an option that may list several with commas, without their hosts or servers."""
    return frozenset(name for part in option.split(",") if (name := part.partition("@")[0]))


def plain_name(name: str) -> str:
    """Return a name of letters, digits and ``_.+-`` that begins with a letter."""
    clean = re.sub(r"[^A-Za-z0-9_.+-]", "_", name)
    return clean if clean[:1].isalpha() else f"p{clean}"
