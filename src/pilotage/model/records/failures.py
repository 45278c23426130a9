"""Failed attempts. Each counts against its queue, its node, or only its task (F2, F3)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pilotage.model.values.types import DESCRIBED

from .constants import GuardConstants

Against = Literal["queue", "node", "task"]
Verdict = Literal["task", "place", "doubt", "unknown"]
"""What a failure follows: its task, its place, one of the two, or nobody can tell."""

Blame = Literal["", "node", "pilot", "storage"]
"""What certainly failed an attempt: the disk of its node; its pilot, which stopped it or was lost; a storage.
Empty: its payload may be to blame."""

LONGEST_ENDING = 200
"""Most characters kept from the end of an error."""

_PAYLOAD = "payload exited with code"
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
    """The machine, or the pilot if the machine is unknown."""
    time: float
    """When it failed, in s since 1970."""
    lasted: float
    """Duration of its payload in s."""
    exit_code: int | None = None
    """Exit code of its payload; none: it never ran."""
    ending: str = ""
    """End of its error, with ``#`` for each number in it."""
    blame: Blame = ""
    """What is certainly to blame, if that is not its payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(FailedAttempt):
    """An attempt that failed at a pilot, as the guards see it (F2, F3)."""

    job: int
    """The job."""
    task: int
    """Its task."""
    owner: str
    """Whose task it is."""
    vo: str
    """VO of the owner."""
    pilot: int
    """The pilot that had it."""
    pilots: int
    """Pilots that ran at the queue then."""
    against: Against = "queue"
    """What it counts against: its queue, until a job of its task succeeds at another node there; its node,
    until one succeeds at it; then only its task."""
    others: Against = "queue"
    """The same for other tasks: any job that succeeds there shows that the place works for others."""
    at_node: Verdict = "unknown"
    """Whether it follows its node."""
    at_queue: Verdict = "unknown"
    """Whether it follows its queue."""
    scouting: bool = False
    """Whether its task has only scouts so far: fewer attempts show a bad place."""
    lifted: bool = False
    """Whether the circuit breaker of its queue or node was lifted since: it trips none any more."""

    def verdict(self, node: bool) -> Verdict:
        """Return what it follows, if its node or its queue is in question."""
        return self.at_node if node else self.at_queue

    def shows(self, node: bool) -> bool:
        """Return whether it shows other tasks that its node or its queue is bad (F2)."""
        works = self.others == "task" or (not node and self.others == "node")
        return self.verdict(node) == "place" and not works

    @property
    def excused(self) -> bool:
        """Return whether the task is certainly or possibly not to blame."""
        return bool(self.blame or {self.at_node, self.at_queue} & {"place", "doubt"})

    @property
    def whose(self) -> tuple[str, str]:
        """Return VO and name of the owner."""
        return self.vo, self.owner


def telling_line(error: str) -> str:
    """Return the line of an error that says most: what a payload said last, else the first line."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[-1] if lines[0].startswith(_PAYLOAD) else lines[0]


def ending_of(error: str) -> str:
    """Return the last line of an error, with ``#`` for its numbers, because numbers of files or lines
    differ by job."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return _DIGITS.sub("#", lines[-1])[-LONGEST_ENDING:] if lines else ""


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
        others = max(failure.others, least, key=_LESS.__getitem__)
        if (against, others) != (failure.against, failure.others):
            yield replace(failure, against=against, others=others)


def allowed_attempts(failures: Iterable[Failure], job: int, guard: GuardConstants, most: int) -> int:
    """Return the most attempts of a job: ``most``, and at most as many again for attempts that do not count
    (F2); besides, for each that a storage failed, within the guard's bounds (F4). A job that has one attempt
    begins once, whoever failed it.

    An attempt does not count if its node or its pilot failed it, or if it failed fast where the
    place may be to blame: a black hole gets the first waiting jobs again and again, until five have failed
    there. A failure at a node where the job failed fast before does not count either, if one pilot there is
    too few to close its queue: the first jobs of a task have no others to prove their case.
    """
    if most == 1:
        return most
    nodes: set[tuple[str, str]] = set()
    excused = 0
    own = sorted((one for one in failures if one.job == job), key=lambda one: one.attempt)
    storages = [one.time for one in own if one.blame == "storage"]
    spared = sum(time - storages[0] <= guard.storage_time for time in storages[: guard.storage_attempts])
    for one in own:
        if one.blame == "storage":
            continue
        if one.blame:
            excused += 1
        elif one.against != "task" and one.lasted <= guard.fast:
            is_one_of_many = guard.pilots * one.pilots > 1
            excused += one.excused or (is_one_of_many and (one.queue, one.node) in nodes)
            nodes.add((one.queue, one.node))
    return most + min(most, excused) + spared
