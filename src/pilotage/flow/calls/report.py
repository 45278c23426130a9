"""Take a pilot's reports on its jobs; the same call is its heartbeat."""

from collections.abc import Sequence
from dataclasses import replace

from pilotage.flow.errors import PilotGone
from pilotage.flow.outside import rest_notices
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.world import Heartbeat, Report, World
from pilotage.model.records.logs import KeptLog
from pilotage.model.records.states import LIVE_PILOTS
from pilotage.pilots import reports as policy
from pilotage.store.worlds.reports import told_by_pilots

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
    told = (Heartbeat(pilot=pilot, holding=tuple(holding), reports=tuple(reports)),)
    world = _world(runtime, told)
    if not world.pilots:
        raise PilotGone(pilot)
    if logs:
        runtime.store.logs.put(policy.owned(world, logs), world.time)
    stops = _received(runtime, world, told, f"pilot:{pilot}")
    if pilot not in stops:
        raise PilotGone(pilot)
    return stops[pilot]


def report_all(runtime: Runtime, told: Sequence[Heartbeat]) -> dict[int, list[Attempt]]:
    """Take the reports of several pilots in one commit; pilots that are gone are not in the answer."""
    silent = {one.pilot: set(one.holding) for one in told if not one.reports}
    held = runtime.store.heartbeats.beat_all(list(silent), runtime.clock())
    alike = {pilot for pilot, holding in silent.items() if held.get(pilot) == holding}
    others = [one for one in told if one.pilot not in alike]
    stops = _received(runtime, _world(runtime, others, True), others, "pilots") if others else {}
    return {pilot: [] for pilot in alike} | stops


def _received(
    runtime: Runtime, world: World, told: Sequence[Heartbeat], actor: str
) -> dict[int, list[Attempt]]:
    decision = policy.receive(world)
    committed = runtime.store.commit(decision, actor)
    rest_notices.tell(world, decision, committed)
    # Something moved on between snapshot and commit: what is to be stopped is told as of now.
    if committed.handed_back:
        world = _world(runtime, told)
    return policy.stops(world)


def _world(runtime: Runtime, told: Sequence[Heartbeat], quiet: bool = False) -> World:
    """The world of what pilots that live tell, where ``quiet`` without the jobs that they merely hold."""
    world = runtime.world(told_by_pilots(told, quiet))
    return replace(world, pilots=tuple(pilot for pilot in world.pilots if pilot.state in LIVE_PILOTS))
