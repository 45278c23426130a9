"""What a failure follows: its task, its node, or its queue (F2)."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from pilotage.model.records.failure_kinds import Culprit
from pilotage.model.records.failures import Failure, Verdict

_CERTAIN: Mapping[Culprit, Verdict] = {"task": "task", "node": "place"}
"""What follows from a culprit without other evidence; the others: nothing."""

Place = tuple[str, str]
"""A queue and one node of it."""

IN_DOUBT = 86400.0
"""Seconds after a task's first failure of a kind during which the task may be in doubt."""

MARGIN = 30.0
"""A job succeeds elsewhere if it runs twice the time of a failure, and this many seconds longer."""

FEW_QUEUES = 2
"""Most queues that may be bad together. A task that never succeeded and fails in the same way at more is
to blame."""

_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\S*[/._\\~-]\S*")
"""The parts of a message that name the input: quoted text, paths and names of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcomes:
    """The evidence for what one task's failures follow.

    ``well`` are places where its jobs succeeded recently. ``running`` is, by queue, the longest run in s of
    its running jobs. ``placed`` are the places of its waiting and running jobs (without a node if no pilot
    has them). ``shared`` are kinds of failure that jobs of other owners have too, by queue. ``possible`` are
    places where its jobs could run if it has only scouts so far; None: it has others.
    """

    failures: Sequence[Failure]
    well: frozenset[Place] = frozenset()
    running: Mapping[str, float] = field(default_factory=dict)
    placed: frozenset[Place] = frozenset()
    shared: frozenset[tuple[str, int | None, str]] = frozenset()
    possible: frozenset[Place] | None = None


def judged(outcomes: TaskOutcomes, time: float) -> Iterator[Failure]:
    """Yield the failures of a task, each with its verdict on its node and on its queue.

    - ``task``: the same input or command fails in the same way at another place, and succeeds at one of the
      two; or it fails in the same way at more than two queues and succeeds nowhere.
    - ``place``: the task succeeds elsewhere and its failure did not follow it there.
    - ``doubt``: nothing is shown yet, and the task has jobs elsewhere, which will show; or its scouts failed
      at one place alone, and could run elsewhere; or others fail in the same way here; or the payload never
      ran. A doubt ends after a day.
    - ``unknown``: nothing is shown, and nothing else will show it; or its pilot or a storage failed it.

    A kind of failure with a known culprit shows nothing about others (``FailureRules``).
    """
    unclear = tuple(failure for failure in outcomes.failures if failure.rules.culprit == "unknown")
    cases = [_Case(replace(outcomes, failures=unclear), at_node, time) for at_node in (True, False)]
    for failure in outcomes.failures:
        if failure.rules.culprit != "unknown":
            verdict = _CERTAIN.get(failure.rules.culprit, "unknown")
            yield replace(failure, at_node=verdict, at_queue=verdict)
            continue
        at_node, at_queue = (case.verdict(failure) for case in cases)
        yield replace(
            failure,
            at_node=at_node,
            at_queue=at_queue,
            is_proof=any(case.proves(failure) for case in cases),
            scouting=outcomes.possible is not None,
        )


@dataclass(slots=True)
class _Alike:
    """The places where failures of one kind happened, and the time of the first, in s since 1970."""

    places: set[Place] = field(default_factory=set)
    first: float = inf

    def add(self, failure: Failure, place: Place) -> None:
        self.places.add(place)
        self.first = min(self.first, failure.time)


class _Case:
    """A task, for the question whether its nodes, or its queues, are to blame."""

    def __init__(self, outcomes: TaskOutcomes, at_node: bool, time: float) -> None:
        self._outcomes, self._at_node, self._time = outcomes, at_node, time
        self._well = self._places(outcomes.well)
        self._placed = self._places(outcomes.placed)
        self._possible = self._places(outcomes.possible or ())
        self._outstanding = Counter(
            self._place(failure) for failure in outcomes.failures if self._speaks(failure)
        )
        self._alike: dict[object, _Alike] = defaultdict(_Alike)
        self._failed: dict[Place, set[int]] = defaultdict(set)
        for failure in outcomes.failures:
            self._failed[self._place(failure)].add(failure.job)
            for key in _keys(failure):
                self._alike[key].add(failure, self._place(failure))

    def verdict(self, failure: Failure) -> Verdict:
        if not self._speaks(failure):
            return "task"
        here = self._place(failure)
        command, job = (self._alike[key] for key in _keys(failure))
        places = command.places | job.places
        queues = {queue for queue, _ in places}
        if (len(places) > 1 and places & self._well) or (not self._well and len(queues) > FEW_QUEUES):
            return "task"
        if self._does_well_elsewhere(failure, here):
            return "place"
        if failure.exit_code is None:
            return "doubt"
        is_fresh = self._time - min(command.first, job.first) < IN_DOUBT
        is_shared = (failure.queue, failure.exit_code, failure.ending) in self._outcomes.shared
        # A job that waits without a pilot is no evidence about other nodes of the queue. Scouts are few: what
        # fails alike at two places is the task's fault.
        placed = self._placed | self._possible if len(places) == 1 else self._placed
        elsewhere = any(node or queue not in queues for queue, node in placed - places)
        may_tell = len(queues) <= FEW_QUEUES and (elsewhere or is_shared)
        return "doubt" if is_fresh and may_tell else "unknown"

    def proves(self, failure: Failure) -> bool:
        """Return whether a failure follows its place, where another job of the task failed, too."""
        return self.verdict(failure) == "place" and len(self._failed[self._place(failure)]) > 1

    def _does_well_elsewhere(self, failure: Failure, here: Place) -> bool:
        longer = 2 * failure.lasted + MARGIN
        if any(queue != failure.queue and ran > longer for queue, ran in self._outcomes.running.items()):
            return True
        # A place where the task fails about as often is no proof against this one.
        least = self._outstanding[here] / 2
        return any(self._outstanding[place] <= least for place in self._well - {here})

    def _speaks(self, failure: Failure) -> bool:
        """Return whether no job of the task has succeeded here since."""
        return failure.against == "queue" or (self._at_node and failure.against == "node")

    def _place(self, failure: Failure) -> Place:
        return failure.queue, failure.node if self._at_node else ""

    def _places(self, places: Iterable[Place]) -> frozenset[Place]:
        return frozenset((queue, node if self._at_node else "") for queue, node in places)


def _keys(failure: Failure) -> tuple[object, object]:
    """Return the command's way to fail, and the input's.

    One input may fail with a different message each time.
    """
    ending = failure.exit_code, _VARYING.sub("#", failure.ending)
    return ("command", *ending), ("input", failure.job, failure.exit_code)
