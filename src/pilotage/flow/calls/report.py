"""A pilot says how its jobs are; the same call is its heartbeat."""

from collections.abc import Sequence

from pilotage.flow.errors import PilotGone
from pilotage.flow.step import new_seed
from pilotage.model.states import LIVE_PILOTS
from pilotage.model.world import Report, World
from pilotage.pilots import reports as policy
from pilotage.store import Store

Attempt = tuple[int, int]


def report(
    store: Store, pilot: int, holding: Sequence[Attempt], reports: Sequence[Report], now: float
) -> list[Attempt]:
    """Take a pilot's reports; returns the attempts, of those it names, that are not its own any more.

    ``holding`` lists every attempt (job, attempt) that it has. Raises :class:`PilotGone`.
    """
    world = _world(store, pilot, holding, reports, now)
    committed = store.commit(policy.receive(world, tuple(holding)), f"pilot:{pilot}")
    if committed.handed_back:
        world = _world(store, pilot, holding, reports, now)
    return policy.stops(world, tuple(holding))


def _world(
    store: Store, pilot: int, holding: Sequence[Attempt], reports: Sequence[Report], now: float
) -> World:
    world = store.snapshots.for_reports(now, new_seed(), pilot, tuple(reports), tuple(holding))
    if not world.pilots or world.pilots[0].state not in LIVE_PILOTS:
        raise PilotGone(pilot)
    return world
