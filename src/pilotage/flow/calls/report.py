"""Take a pilot's reports on its jobs; the same call is its heartbeat."""

from collections.abc import Sequence

from pilotage.flow.errors import PilotGone
from pilotage.flow.runtime import Runtime
from pilotage.model.logs import KeptLog
from pilotage.model.states import LIVE_PILOTS
from pilotage.model.world import Report, World
from pilotage.pilots import reports as policy

Attempt = tuple[int, int]


def report(
    runtime: Runtime,
    pilot: int,
    holding: Sequence[Attempt],
    reports: Sequence[Report],
    logs: Sequence[KeptLog] = (),
) -> list[Attempt]:
    """Take a pilot's reports; returns the attempts, of those it names, that are not its own any more.

    ``holding`` lists every attempt (job, attempt) that it has. Logs are kept before the end of their attempt
    is, so that no attempt has failed without them; those of others' attempts and pilots are dropped. Raises
    :class:`PilotGone`.
    """
    silent = not reports and not logs
    if silent and runtime.store.heartbeats.beat(pilot, runtime.clock()) == set(holding):
        # Both sides know the same: the policy would move and stop nothing. Most calls are like that.
        return []
    world = _world(runtime, pilot, holding, reports)
    if logs:
        runtime.store.logs.put(policy.owned(world, logs), world.time)
    committed = runtime.store.commit(policy.receive(world, tuple(holding)), f"pilot:{pilot}")
    # Something moved on between snapshot and commit: what is to be stopped is told as of now.
    if committed.handed_back:
        world = _world(runtime, pilot, holding, reports)
    return policy.stops(world, tuple(holding))


def _world(runtime: Runtime, pilot: int, holding: Sequence[Attempt], reports: Sequence[Report]) -> World:
    world = runtime.store.snapshots.for_reports(
        runtime.clock(), runtime.seeds(), pilot, tuple(reports), tuple(holding)
    )
    if not world.pilots or world.pilots[0].state not in LIVE_PILOTS:
        raise PilotGone(pilot)
    return world
