"""Failed attempts, and what they speak against: their queue, their node, or their task alone (F2, F3)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pilotage.model.values.types import DESCRIBED

from .constants import GuardConstants

Against = Literal["queue", "node", "task"]
Verdict = Literal["task", "place", "doubt", "unknown"]
"""What a failure follows: its task, its place, one of the two, or nobody can tell."""

LONGEST_ENDING = 200
"""Characters that are kept of the end of an error."""

_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """How an attempt of a job failed at a pilot, as its history tells it."""

    __pydantic_config__ = DESCRIBED

    attempt: int
    """The attempt."""
    queue: str
    """Where it ran."""
    node: str
    """The machine; the pilot where that did not tell it."""
    time: float
    """When it failed, in s since 1970."""
    lasted: float
    """s for which its payload ran."""
    exit_code: int | None = None
    """Exit code of its payload; none: it never ran."""
    ending: str = ""
    """End of its error, with ``#`` for each number in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(FailedAttempt):
    """An attempt that failed at a pilot, as guards see it (F2, F3)."""

    job: int
    """The job."""
    task: int
    """The task that it belongs to."""
    owner: str
    """Whose task it is."""
    vo: str
    """VO of the owner."""
    pilot: int
    """The pilot that had it."""
    pilots: int
    """Pilots that ran at the queue then."""
    against: Against = "queue"
    """What it speaks against: its queue, until a job of its task ends well at another node there; its node,
    until one ends well at that; then its task alone."""
    others: Against = "queue"
    """The same for other tasks: any job that ends well there shows that the place works for others."""
    at_node: Verdict = "unknown"
    """Whether it follows its node."""
    at_queue: Verdict = "unknown"
    """Whether it follows its queue."""

    def verdict(self, node: bool) -> Verdict:
        """What it follows, where its node or its queue is in question."""
        return self.at_node if node else self.at_queue

    def shows(self, node: bool) -> bool:
        """Whether it shows other tasks that its node or its queue is bad (F2)."""
        works = self.others == "task" or (not node and self.others == "node")
        return self.verdict(node) == "place" and not works

    @property
    def excused(self) -> bool:
        """Whether the task is not to blame, or may not be."""
        return bool({self.at_node, self.at_queue} & {"place", "doubt"})

    @property
    def whose(self) -> tuple[str, str]:
        """VO and name of the owner."""
        return self.vo, self.owner


def ending_of(error: str) -> str:
    """The last line of an error, with ``#`` for its numbers: those of a file or a line differ by job."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return _DIGITS.sub("#", lines[-1])[-LONGEST_ENDING:] if lines else ""


_LESS: dict[Against, int] = {"queue": 0, "node": 1, "task": 2}


def outweighed(failures: Iterable[Failure], task: int, queue: str, node: str) -> Iterator[Failure]:
    """The failures that speak against less once a job of a task has ended well at a node of a queue."""
    for failure in failures:
        if failure.queue != queue:
            continue
        least: Against = "task" if failure.node == node else "node"
        against = (
            max(failure.against, least, key=_LESS.__getitem__) if failure.task == task else failure.against
        )
        others = max(failure.others, least, key=_LESS.__getitem__)
        if (against, others) != (failure.against, failure.others):
            yield replace(failure, against=against, others=others)


def allowed_attempts(failures: Iterable[Failure], job: int, guard: GuardConstants, most: int) -> int:
    """Count the attempts that a job may have: ``most``, and as many more at the most that do not count (F2).

    These failed fast where the place may be to blame: a black hole is given the first jobs that wait, again
    and again, until five have failed there. Nor does a failure count at a node where the job failed fast
    before, if one pilot there is too few for its queue to rest: the first jobs of a task have no others that
    speak for them.
    """
    nodes: set[tuple[str, str]] = set()
    excused = 0
    for one in sorted(failures, key=lambda one: one.attempt):
        if one.job == job and one.against != "task" and one.lasted <= guard.fast:
            is_one_of_many = guard.pilots * one.pilots > 1
            excused += one.excused or (is_one_of_many and (one.queue, one.node) in nodes)
            nodes.add((one.queue, one.node))
    return most + min(most, excused)
