"""Process a pilot's reports on its jobs. The same call is its heartbeat."""

from collections.abc import Sequence
from dataclasses import replace

from pilotage.flow.errors import PilotGone
from pilotage.flow.outside import removals
from pilotage.flow.outside.deliveries import log_breakers
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Committed
from pilotage.model.documents.world import Heartbeat, Report, World
from pilotage.model.records.logs import KeptLog
from pilotage.model.records.states import LIVE_PILOTS
from pilotage.policies.pilots import reports as policy
from pilotage.store.pilots.reports import told_by_pilots

Attempt = tuple[int, int]


def report(
    runtime: Runtime,
    pilot: int,
    holding: Sequence[Attempt],
    reports: Sequence[Report],
    logs: Sequence[KeptLog] = (),
    last_answer: float | None = None,
) -> list[Attempt]:
    """Process a pilot's reports. Return the mentioned attempts that do not belong to it now.

    ``holding`` lists every attempt (job, attempt) that it has. Logs are stored before the end of their
    attempt, so that no attempt has failed without them; logs of others' attempts and pilots are dropped.
    ``last_answer`` is the time of the last answer that the pilot had when it called. Raises ``PilotGone``.
    """
    silent = not reports and not logs
    if silent and beat(runtime, [(pilot, holding)]) == [True]:
        return []
    heartbeats = (Heartbeat(pilot=pilot, holding=tuple(holding), reports=tuple(reports), heard=last_answer),)
    world = _world(runtime, heartbeats)
    if not world.pilots:
        raise PilotGone(pilot)
    if logs:
        runtime.store.logs.put(policy.owned(world, logs), world.time)
    stops = _received(runtime, world, heartbeats, f"pilot:{pilot}")
    if pilot not in stops:
        raise PilotGone(pilot)
    return stops[pilot]


def beat(runtime: Runtime, heartbeats: Sequence[tuple[int, Sequence[Attempt]]]) -> list[bool]:
    """Record calls of pilots without news, and whether each holds what it should.

    The policy would change nothing for those that do. Most calls are like that.
    """
    attempts = runtime.store.heartbeats.beat(list({pilot for pilot, _ in heartbeats}), runtime.clock())
    return [attempts.get(pilot) == set(holding) for pilot, holding in heartbeats]


def report_all(runtime: Runtime, heartbeats: Sequence[Heartbeat]) -> dict[int, list[Attempt]]:
    """Process the reports of several pilots in one commit. The result omits pilots that are gone."""
    silent = [(heartbeat.pilot, heartbeat.holding) for heartbeat in heartbeats if not heartbeat.reports]
    unchanged = {pilot for (pilot, _), alike in zip(silent, beat(runtime, silent), strict=True) if alike}
    rest = [heartbeat for heartbeat in heartbeats if heartbeat.pilot not in unchanged]
    stops = _received(runtime, _world(runtime, rest, True), rest, "pilots") if rest else {}
    return {pilot: [] for pilot in unchanged} | stops


def receive(runtime: Runtime, world: World, actor: str) -> Committed:
    """Commit the reports of pilots, and act on the results."""
    decision = policy.receive(world)
    committed = runtime.store.commit(decision, actor)
    log_breakers(world, decision, committed)
    removals.clear(runtime, world, decision, committed)
    return committed


def _received(
    runtime: Runtime, world: World, heartbeats: Sequence[Heartbeat], actor: str
) -> dict[int, list[Attempt]]:
    committed = receive(runtime, world, actor)
    # Something moved on between snapshot and commit: the answer names the attempts to stop as of now.
    if committed.handed_back:
        world = _world(runtime, heartbeats)
    return policy.stops(world)


def _world(runtime: Runtime, heartbeats: Sequence[Heartbeat], quiet: bool = False) -> World:
    """Return the world of live pilots' reports; with ``quiet``, without jobs that they only hold."""
    world = runtime.world(told_by_pilots(heartbeats, quiet))
    return replace(world, pilots=tuple(pilot for pilot in world.pilots if pilot.state in LIVE_PILOTS))
