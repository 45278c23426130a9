"""Failed attempts. Each counts against its queue, its node, or only its task (F2, F3)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pilotage.model.records.constants import GuardConstants
from pilotage.model.records.failure_kinds import FAILURE_RULES, FailureKind, FailureRules
from pilotage.model.values.error_lines import last_line
from pilotage.model.values.types import DESCRIBED, Elsewhere, RecordId

Against = Literal["queue", "node", "task"]
Verdict = Literal["task", "place", "doubt", "unknown"]
"""What a failure follows: its task, its place, one of the two, or unknown."""

_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """How an attempt of a job failed at a pilot, from its history."""

    __pydantic_config__ = DESCRIBED

    attempt: int
    """The attempt."""
    queue: str
    """Where it ran."""
    node: str
    """The machine, or the pilot if the machine is unknown; empty: storages failed it without a pilot."""
    time: float
    """When it failed, in s since 1970."""
    lasted: float
    """Duration of its payload in s."""
    exit_code: int | None = None
    """Exit code of its payload; none: it never ran."""
    ending: str = ""
    """End of its error, with ``#`` for each number in it."""
    example: str = ""
    """The same with its numbers."""
    kind: FailureKind = "payload"
    """How it failed."""
    grows: bool = False
    """Whether the next attempt asks for more of what this one exceeded."""

    @property
    def error(self) -> str:
        """Return the end of its error; without its numbers if an earlier version kept it."""
        return self.example or self.ending

    @property
    def rules(self) -> FailureRules:
        """Return what follows from its kind."""
        return FAILURE_RULES[self.kind]

    @property
    def signature(self) -> tuple[FailureKind, int | None, str]:
        """Return how it failed, to compare it with others: they fail alike if these are equal (F3)."""
        return (self.kind, None, "") if self.rules.exceeded else (self.kind, self.exit_code, self.ending)

    @property
    def stops_tasks(self) -> bool:
        """Return whether it counts where all first attempts of a task fail alike (F3)."""
        return self.rules.stops_tasks and not self.grows


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(FailedAttempt):
    """An attempt that failed at a pilot, as the guards see it (F2, F3)."""

    job: RecordId
    """The job."""
    task: RecordId
    """Its task."""
    owner: str
    """Owner of the task."""
    vo: str
    """VO of the owner."""
    pilot: RecordId
    """The pilot that had it; 0: storages failed it without one."""
    pilots: int
    """Pilots that ran at the queue then."""
    against: Against = "queue"
    """What it counts against: its queue, until a job of its task succeeds at another node there; its node,
    until one succeeds at it; then only its task."""
    others: Against = "queue"
    """The same for other tasks: any job that succeeds there shows that the place works for others."""
    at_node: Elsewhere[Verdict] = "unknown"
    """Whether it follows its node."""
    at_queue: Elsewhere[Verdict] = "unknown"
    """Whether it follows its queue."""
    is_proof: Elsewhere[bool] = False
    """Whether it follows its place by proof: several jobs of its task failed there, and others did well
    elsewhere."""
    scouting: Elsewhere[bool] = False
    """Whether its task has only scouts so far: fewer attempts show a bad place."""
    lifted: Elsewhere[bool] = False
    """Whether the circuit breaker of its queue or node was lifted since, so that it trips none."""
    is_former: Elsewhere[bool] = False
    """Whether a person has retried its job since, so that it does not stop its task."""

    def verdict(self, node: bool) -> Verdict:
        """Return the verdict on it, by its node or by its queue."""
        return self.at_node if node else self.at_queue

    def shows(self, node: bool) -> bool:
        """Return whether it shows other tasks that its node or its queue is bad (F2)."""
        works = self.others == "task" or (not node and self.others == "node")
        return self.verdict(node) == "place" and not works

    @property
    def may_follow_place(self) -> bool:
        """Return whether the place is to blame, or may be, so that the task cannot be judged by it."""
        return bool({self.at_node, self.at_queue} & {"place", "doubt"})

    @property
    def person(self) -> tuple[str, str]:
        """Return VO and name of the owner."""
        return self.vo, self.owner


def ending_of(error: str) -> str:
    """Return the last line of an error, with ``#`` for its numbers, because numbers of files or lines
    differ by job."""
    return _DIGITS.sub("#", last_line(error))


_LESS: dict[Against, int] = {"queue": 0, "node": 1, "task": 2}


def outweighed(failures: Iterable[Failure], task: int, queue: str, node: str) -> Iterator[Failure]:
    """Yield the failures that count less after a job of a task has succeeded at a node of a queue."""
    for failure in failures:
        if failure.queue != queue:
            continue
        least: Against = "task" if failure.node == node else "node"
        against = (
            max(failure.against, least, key=_LESS.__getitem__) if failure.task == task else failure.against
        )
        other_tasks = max(failure.others, least, key=_LESS.__getitem__)
        if (against, other_tasks) != (failure.against, failure.others):
            yield replace(failure, against=against, others=other_tasks)


class Tries(NamedTuple):
    """How many attempts a job has: ``limit`` that count, after those ``before`` a person last retried it."""

    limit: int
    before: int = 0
    excused: int = 0
    """Attempts that do not count."""

    def remain(self, attempt: int) -> bool:
        """Return whether another one may follow an attempt that failed."""
        return attempt - self.before - self.excused < self.limit

    def next_in_words(self, attempt: int) -> str:
        """Return the number of the next attempt, without attempts that do not count, in words."""
        number = max(0, attempt - self.before - self.excused) + 1
        excused = f" ({self.excused} did not count)" if self.excused else ""
        return f"attempt {number} of {self.limit}{excused}"


def tries_of(failures: Iterable[Failure], job: int, guard: GuardConstants, tries: Tries) -> Tries:
    """Return the tries of a job with its excused attempts: at most ``limit`` (F2), and further ones that
    storages failed, within the guard's bounds (F4).

    An attempt is excused by its kind (``FailureRules.counts``), or if it failed fast and its place is proven
    bad. A job with a limit of one attempt has none excused, so that it never begins twice.
    """
    if tries.limit == 1:
        return tries
    of_job = [failure for failure in failures if failure.job == job and failure.attempt > tries.before]
    storages = sorted(failure.time for failure in of_job if failure.rules.culprit == "storage")
    spared = sum(time - storages[0] <= guard.storage_time for time in storages[: guard.storage_attempts])
    excused = sum(
        not failure.rules.counts or (failure.is_proof and failure.lasted <= guard.fast)
        for failure in of_job
        if failure.rules.culprit != "storage"
    )
    return tries._replace(excused=min(tries.limit, excused) + spared)
