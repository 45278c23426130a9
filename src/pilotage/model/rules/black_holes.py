"""Places that get no jobs of a task because job after job of it failed fast there: the guard F2."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pilotage.model.records.constants import GuardConstants
from pilotage.model.records.failing_places import followed
from pilotage.model.records.failures import Failure

Scope = tuple[str, str, int]
"""Whose jobs a place refuses: VO, owner and task. A task of 0 means all tasks of the owner."""

EVERYBODY: Scope = ("", "", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A queue, or one ``node`` of it, that gets no jobs of a scope until a time in s since 1970.

    ``failures`` counts the fast failures in a row; ``last`` is the newest.
    """

    queue: str
    node: str
    whose: Scope
    since: float
    until: float
    failures: int
    last: Failure

    @property
    def text(self) -> str:
        """Return the end of the pause, and the reason, in words."""
        until = datetime.fromtimestamp(self.until, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"rests until {until}: {self.failures} failed fast in a row, the last with: {self.last.ending}"

    @property
    def whom(self) -> str:
        """Return whose jobs it concerns, in words."""
        _, owner, task = self.whose
        return f"task {task}" if task else (owner or "everybody")

    def holds_for(self, vo: str, owner: str, task: int) -> bool:
        """Return whether it concerns the jobs of a task."""
        return self.whose in scopes(vo, owner, task)


def scopes(vo: str, owner: str, task: int) -> tuple[Scope, Scope, Scope]:
    """Return the scopes that contain a task."""
    return (vo, owner, task), (vo, owner, 0), EVERYBODY


def rests(failures: Iterable[Failure], constants: GuardConstants) -> tuple[Rest, ...]:
    """Return the places where jobs failed fast in a row, and whose jobs they refuse. Afterwards, one job
    tries.

    A place closes to a *task* if the failures follow the place, or possibly do. It closes to an *owner* if
    this is shown for two of their tasks, and to *everybody* if it is shown for two owners. Failures that
    follow the task close nothing.
    """
    rows: dict[tuple[str, str], list[Failure]] = defaultdict(list)
    for failure in sorted(failures, key=lambda one: (one.time, one.job, one.attempt)):
        if failure.lasted <= constants.fast:
            rows[failure.queue, failure.node].append(failure)
            rows[failure.queue, ""].append(failure)
    return tuple(rest for place, row in sorted(rows.items()) for rest in _of_place(*place, row, constants))


def resting_now(failures: Iterable[Failure], constants: GuardConstants, time: float) -> tuple[Rest, ...]:
    """Return the current pauses of whole queues."""
    return tuple(rest for rest in rests(failures, constants) if not rest.node and time < rest.until)


def _of_place(queue: str, node: str, row: list[Failure], constants: GuardConstants) -> Iterator[Rest]:
    """Yield the pauses of one place, for each scope by its own row of failures."""
    by_scope: dict[Scope, list[Failure]] = defaultdict(list)
    for failure in row:
        if failure.verdict(bool(node)) != "task":
            for scope in scopes(failure.vo, failure.owner, failure.task):
                by_scope[scope].append(failure)
    for scope, failures in sorted(by_scope.items()):
        if rest := _rest(queue, node, scope, failures, constants):
            yield rest


def _rest(queue: str, node: str, scope: Scope, row: list[Failure], constants: GuardConstants) -> Rest | None:
    pilots: set[int] = set()
    seen: list[Failure] = []
    has_rested = False

    def enough(_: int, failure: Failure) -> bool:
        nonlocal has_rested
        seen.append(failure)
        pilots.add(failure.pilot)
        many = bool(node) or len(pilots) >= constants.pilots * failure.pilots
        has_rested = has_rested or (many and _is_shown_for(scope, seen, constants.in_a_row))
        return has_rested

    def counts(failure: Failure) -> bool:
        if scope[2]:
            return failure.verdict(bool(node)) in ("place", "doubt")
        return failure.shows(bool(node))

    # Go one by one: whether the next failure counts depends on those before it. A place that was paused
    # before needs no proof.
    found = followed((one for one in row if has_rested or counts(one)), enough, constants.rest_after)
    if found is None:
        return None
    return Rest(
        queue=queue,
        node=node,
        whose=scope,
        since=found.since,
        until=found.until,
        failures=found.failures,
        last=found.last,
    )


def _is_shown_for(scope: Scope, seen: list[Failure], in_a_row: int) -> bool:
    """Return whether failures close their place to a scope: enough jobs failed, of enough tasks or owners."""
    _, owner, task = scope
    if owner and not task and len({one.task for one in seen}) < 2:
        return False
    # One bad input fails again and again, so count it once. A payload that never ran has read no input.
    jobs = {(one.job, one.attempt if one.exit_code is None else 0): one.whose for one in seen}
    if owner:
        return len(jobs) >= in_a_row
    return sum(count >= in_a_row for count in Counter(jobs.values()).values()) > 1
