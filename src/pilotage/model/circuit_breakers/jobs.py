"""What trips the circuit breakers of queues and nodes: job after job of a task fails fast there (F2)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from pilotage.model.circuit_breakers.breaker import CircuitBreaker, Scope, followed, open_at, scopes
from pilotage.model.records.constants import GuardConstants
from pilotage.model.records.failures import Failure
from pilotage.model.records.federation import Federation
from pilotage.model.records.unified_queues import counted_together


def job_breakers(failures: Iterable[Failure], federation: Federation) -> tuple[CircuitBreaker, ...]:
    """Return the breakers of places where jobs failed fast in a row, each with the jobs that it holds back.

    The pseudo-queues of a unified queue are one place: they have the same nodes (B2).

    A place closes to a *task* if the task's failures follow the place, or may do so. It closes to an *owner*
    once this is shown for two of the owner's tasks, and to *everybody* once it is shown for two owners.
    Failures that follow the task close nothing. Failures before a breaker was lifted do not count, nor do
    kinds with another culprit (``FailureRules.trips``).
    """
    rows: dict[tuple[tuple[str, ...], str], list[Failure]] = defaultdict(list)
    together, constants = counted_together(federation), federation.guard
    for failure in sorted(failures, key=lambda failure: (failure.time, failure.job, failure.attempt)):
        if failure.rules.trips and failure.lasted <= constants.fast and not failure.lifted:
            queues = together.get(failure.queue, (failure.queue,))
            rows[queues, failure.node].append(failure)
            rows[queues, ""].append(failure)
    return tuple(
        breaker
        for (queues, node), row in sorted(rows.items())
        for queue in queues
        for breaker in _of_place(queue, node, row, constants)
    )


def open_queues(
    failures: Iterable[Failure], federation: Federation, time: float
) -> tuple[CircuitBreaker, ...]:
    """The breakers of whole queues that are open."""
    return open_at(
        (breaker for breaker in job_breakers(failures, federation) if breaker.kind == "queue"), time
    )


def _of_place(
    queue: str, node: str, row: list[Failure], constants: GuardConstants
) -> Iterator[CircuitBreaker]:
    """The breakers of one place, for each scope by its own row of failures."""
    by_scope: dict[Scope, list[Failure]] = defaultdict(list)
    for failure in row:
        if failure.verdict(bool(node)) != "task":
            for scope in scopes(failure.vo, failure.owner, failure.task):
                by_scope[scope].append(failure)
    for scope, failures in sorted(by_scope.items()):
        if breaker := _breaker(queue, node, scope, failures, constants):
            yield breaker


def _breaker(
    queue: str, node: str, scope: Scope, row: list[Failure], constants: GuardConstants
) -> CircuitBreaker | None:
    pilots: set[int] = set()
    counted: list[Failure] = []
    has_opened = False

    def trips(failure: Failure) -> bool:
        nonlocal has_opened
        counted.append(failure)
        pilots.add(failure.pilot)
        is_enough = bool(node) or len(pilots) >= constants.pilots * failure.pilots
        has_opened = has_opened or (is_enough and _is_shown_for(scope, counted, constants))
        return has_opened

    def counts(failure: Failure) -> bool:
        if scope[2]:
            return failure.verdict(bool(node)) in ("place", "doubt")
        return failure.shows(bool(node))

    # One by one: whether the next counts depends on those before it. A place that was closed needs no proof.
    tripped = followed(
        (failure for failure in row if has_opened or counts(failure)), trips, constants.open_for
    )
    if tripped is None or tripped.last is None:
        return None
    return tripped.breaker("node" if node else "queue", (queue, node), tripped.last.error, scope)


def _is_shown_for(scope: Scope, failures: list[Failure], constants: GuardConstants) -> bool:
    """Return whether enough jobs failed, of enough tasks or owners, to close their place to a scope.

    Scouts may be fewer: their attempts count.
    """
    (_, owner, task), in_a_row = scope, constants.in_a_row
    if task and all(failure.scouting for failure in failures):
        return len(failures) >= min(in_a_row, constants.fewest)
    if owner and not task and len({failure.task for failure in failures}) < 2:
        return False
    # One bad input fails again and again. A payload that never ran has read none.
    jobs = {
        (failure.job, failure.attempt if failure.exit_code is None else 0): failure.person
        for failure in failures
    }
    if owner:
        return len(jobs) >= in_a_row
    return sum(count >= in_a_row for count in Counter(jobs.values()).values()) > 1
