"""Circuit breakers of queues where pilots end without work, or where nodes lack what jobs need (P12, B14)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from pilotage.model.circuit_breakers.breaker import (
    CircuitBreaker,
    FailedBatch,
    LiftedBreaker,
    each_opens,
    lifted_at,
)
from pilotage.model.circuit_breakers.pilots import begun
from pilotage.model.records.constants import DirectorConstants, longer_each_time
from pilotage.model.records.states import LIVE_PILOTS, PilotState
from pilotage.model.records.work import Pilot, Requirements
from pilotage.model.values.phrases import plural

CONTAINERS, GPUS = "containers", "GPUs"

NEEDS: Mapping[str, Callable[[Requirements], bool]] = {
    GPUS: lambda requirements: requirements.gpus > 0,
    CONTAINERS: lambda requirements: requirements.container,
}
"""What queues promise for all their nodes, and which task queues need it."""

_LACKS = {GPUS: "too few GPUs", CONTAINERS: "no container runtime"}


def is_missed(lacks: str, requirements: Requirements) -> bool:
    """Return whether jobs need something that a node ``lacks``."""
    return any(need in lacks and asks(requirements) for need, asks in NEEDS.items())


def made_for(pilots: Iterable[Pilot], need: str) -> list[Pilot]:
    """Return the pilots made for task queues with this need."""
    pilots = list(pilots)
    texts = {pilot.requirements for pilot in pilots if pilot.requirements}
    asking = {text for text in texts if NEEDS[need](Requirements.from_text(text))}
    return [pilot for pilot in pilots if pilot.requirements in asking]


def has_it(pilot: Pilot, need: str) -> bool:
    """Return whether a pilot made for a need has called, and its node meets it."""
    return pilot.heartbeat is not None and need not in pilot.lacks


def is_empty(pilot: Pilot) -> bool:
    """Return whether a pilot called home and ended without a job, although its node lacked nothing."""
    has_ended = pilot.state not in LIVE_PILOTS and pilot.heartbeat is not None
    return has_ended and not pilot.matched and not pilot.lacks


def after_empty_ones(
    queue: str, pilots: Iterable[Pilot], director: DirectorConstants, lifted: Sequence[LiftedBreaker] = ()
) -> CircuitBreaker | None:
    """Return the breaker of a queue where pilots ended without work since the last useful one (P12).

    Pilots of one iteration count once: they were made for the same work.
    """
    pilots = list(pilots)
    useful = [pilot for pilot in pilots if pilot.matched > 0]
    empty = _since_useful(filter(is_empty, pilots), useful, lifted_at(lifted, "empty-pilots", queue, ""))
    return _opened((queue, ""), empty, "they ended without work", director)


def of_nodes(
    pilots: Iterable[Pilot], director: DirectorConstants, lifted: Sequence[LiftedBreaker] = ()
) -> tuple[CircuitBreaker, ...]:
    """Return the breakers, by queue and need, where pilots sent for a need came to nodes without it (P12).

    A queue has none for a need if the node of a running pilot meets it.
    """
    by_queue: dict[str, list[Pilot]] = defaultdict(list)
    for pilot in pilots:
        by_queue[pilot.queue].append(pilot)
    breakers = (
        _of_need(queue, queue_pilots, need, director, lifted)
        for queue, queue_pilots in sorted(by_queue.items())
        for need in NEEDS
        if any(need in pilot.lacks for pilot in queue_pilots)
    )
    return tuple(breaker for breaker in breakers if breaker)


def _of_need(
    queue: str, pilots: list[Pilot], need: str, director: DirectorConstants, lifted: Sequence[LiftedBreaker]
) -> CircuitBreaker | None:
    sent = made_for(pilots, need)
    useful = [pilot for pilot in sent if has_it(pilot, need)]
    if any(pilot.state is PilotState.RUNNING for pilot in useful):
        return None
    lacking = [pilot for pilot in sent if need in pilot.lacks]
    vain = _since_useful(lacking, useful, lifted_at(lifted, "empty-pilots", queue, need))
    nodes = {pilot.node or pilot.id for pilot in vain}
    error = f"{_LACKS[need]} ({plural(len(nodes), 'node')} checked)"
    return _opened((queue, need), vain, error, director)


def _since_useful(vain: Iterable[Pilot], useful: Sequence[Pilot], lifted: float) -> list[Pilot]:
    """Return the useless pilots made after the last useful one, and after the breaker was lifted."""
    after, began = max([lifted, *(pilot.created for pilot in useful)]), begun(useful)
    return [pilot for pilot in vain if pilot.created > after and pilot.since > began]


def _opened(
    place: tuple[str, str], vain: Iterable[Pilot], error: str, director: DirectorConstants
) -> CircuitBreaker | None:
    ends = [FailedBatch(pilot.since, pilot.created, error) for pilot in vain]
    tripped = each_opens(ends, lambda openings: longer_each_time(director.empty_pause, openings + 1))
    return tripped.breaker("empty-pilots", place, error) if tripped else None
