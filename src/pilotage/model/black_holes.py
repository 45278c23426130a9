"""Places that rest because job after job failed fast there: a guard against black holes (F2)."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from .constants import GuardConstants
from .failing_places import followed
from .failures import Failure

EVERYBODY = ("", "")
"""Whose jobs a place takes none of where two owners or more have seen it fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A queue, or one ``node`` of it, that gets no jobs of an owner until a time, in s since 1970.

    ``whose`` is VO and name of the owner. ``failures`` counts what failed fast in a row, ``last`` the newest.
    It is ``certain`` where as many failed as make it rest whose tasks are not to blame without a doubt.
    """

    queue: str
    node: str
    whose: tuple[str, str]
    since: float
    until: float
    failures: int
    last: Failure
    certain: bool

    @property
    def text(self) -> str:
        """The end of its rest, and the reason, in words."""
        until = datetime.fromtimestamp(self.until, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"rests until {until}: {self.failures} failed fast in a row, the last with: {self.last.ending}"

    def holds_for(self, whose: tuple[str, str]) -> bool:
        """Tell whether it concerns the jobs of an owner."""
        return self.whose in (whose, EVERYBODY)


def rests(failures: Iterable[Failure], constants: GuardConstants) -> tuple[Rest, ...]:
    """Places where jobs failed fast in a row. Where the rest is over, one job tries.

    A row counts for its owner alone, so that nobody's broken tasks close a queue to others; where two owners'
    rests overlap, and neither is in doubt, it is closed to everybody. Failures that may be their task's fault
    count nothing until the place has rested: then it is likelier to blame, as long as no job does well there.
    """
    rows: dict[tuple[str, str, tuple[str, str]], list[Failure]] = defaultdict(list)
    for failure in sorted(failures, key=lambda one: (one.time, one.job, one.attempt)):
        if failure.against == "task" or failure.lasted > constants.fast:
            continue
        rows[failure.queue, failure.node, failure.whose].append(failure)
        if failure.against == "queue":
            rows[failure.queue, "", failure.whose].append(failure)
    found = [rest for place, row in sorted(rows.items()) if (rest := _rest(*place, row, constants))]
    return (*found, *_of_everybody(found))


def resting_now(failures: Iterable[Failure], constants: GuardConstants, time: float) -> tuple[Rest, ...]:
    """The rests of whole queues that are not over."""
    return tuple(rest for rest in rests(failures, constants) if not rest.node and time < rest.until)


def _rest(
    queue: str, node: str, whose: tuple[str, str], row: list[Failure], constants: GuardConstants
) -> Rest | None:
    pilots: set[int] = set()
    has_rested = False

    def enough(count: int, failure: Failure) -> bool:
        nonlocal has_rested
        pilots.add(failure.pilot)
        many = bool(node) or len(pilots) >= constants.pilots * failure.pilots
        has_rested = has_rested or (count >= constants.in_a_row and many)
        return has_rested

    # One by one: whether the next counts depends on those before it.
    counting = (failure for failure in row if failure.proven or has_rested)
    found = followed(counting, enough, constants.rest_after)
    if found is None:
        return None
    return Rest(
        queue=queue,
        node=node,
        whose=whose,
        since=found.since,
        until=found.until,
        failures=found.failures,
        last=found.last,
        certain=sum(one.proven and not one.doubted for one in row) >= constants.in_a_row,
    )


def _of_everybody(found: list[Rest]) -> list[Rest]:
    """Rests of places where those of two owners overlap, as long as both last; none of them is in doubt."""
    by_place: dict[tuple[str, str], list[Rest]] = defaultdict(list)
    for rest in found:
        if rest.certain:
            by_place[rest.queue, rest.node].append(rest)
    closed = []
    for (queue, node), several in by_place.items():
        # The two that end last; None where there is one alone.
        *_, second, first = [None, *sorted(several, key=lambda rest: rest.until)]
        if second is not None and first is not None and first.since < second.until:
            closed.append(
                Rest(
                    queue=queue,
                    node=node,
                    whose=EVERYBODY,
                    since=first.since,
                    until=second.until,
                    failures=first.failures + second.failures,
                    last=first.last,
                    certain=True,
                )
            )
    return closed
