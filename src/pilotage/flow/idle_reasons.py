"""Why a step changes nothing in a world: what it looks for, and what there is of it."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from pilotage.model.states import LIVE_PILOTS, JobState, TransferState
from pilotage.model.world import World


def reasons(step: str, world: World) -> list[str]:
    """What keeps the step still, in plain words. Raises KeyError for a step that cannot be planned."""
    return list(_REASONS[step](world))


def _broker(world: World) -> Iterator[str]:
    states = Counter(job.state for job in world.jobs)
    if not states[JobState.DEFINED]:
        yield "no job is defined, which is what is brokered"
    wakes = [job.wake_at for job in world.jobs if job.state is JobState.PENDING and job.wake_at is not None]
    if states[JobState.PENDING]:
        until = f" until {_moment(min(wakes))} at the earliest" if wakes else ""
        yield f"{_jobs(states[JobState.PENDING])} pending{until}: no queue fits (B37)"


def _stage(world: World) -> Iterator[str]:
    queued = [one for one in world.transfers if one.state is TransferState.QUEUED]
    delivering = sum(one.state is TransferState.DELIVERING for one in world.transfers)
    later = [one.wake_at for one in queued if one.wake_at is not None and one.wake_at > world.time]
    if not queued:
        yield "no transfer is queued"
    if later:
        yield f"of {len(queued)} queued {len(later)} not tried again before {_moment(min(later))}"
    if delivering:
        yield f"{delivering} delivering"


def _provision(world: World) -> Iterator[str]:
    waiting = sum(entry.jobs for entry in world.task_queues)
    if not waiting:
        yield "no job is activated, so none waits for a pilot"
        return
    served = {queue.name for queue in world.federation.queues if queue.computing_element}
    without = sorted({entry.queue for entry in world.task_queues if entry.jobs} - served)
    if without:
        yield f"no pilots are started from here at {', '.join(without)}"
    yield f"{_jobs(waiting)} waiting for pilots; the draw (P3), the bound (P4) or the room gave none"


def _match(world: World) -> Iterator[str]:
    if not world.requests:
        yield "no pilot asks"
    live = {pilot.id for pilot in world.pilots if pilot.state in LIVE_PILOTS}
    if gone := sorted({request.pilot for request in world.requests} - live):
        yield f"not alive: {', '.join(f'pilot {pilot}' for pilot in gone)}"
    if not any(job.state is JobState.ACTIVATED for job in world.jobs):
        yield "no job is activated"


def _watch(world: World) -> Iterator[str]:
    pilots = sum(pilot.state in LIVE_PILOTS for pilot in world.pilots)
    yield f"none is late of {_jobs(len(world.jobs))}, {pilots} live pilots, {len(world.transfers)} transfers"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_REASONS: dict[str, Callable[[World], Iterator[str]]] = {
    "broker": _broker,
    "stage": _stage,
    "provision": _provision,
    "match": _match,
    "watch": _watch,
}
