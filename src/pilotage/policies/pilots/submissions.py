"""Process computing elements' reports on pilots: accepted, refused, or ended there (P10)."""

from collections import defaultdict

from pilotage.model.documents.decision import Change, Decision, Move, Touch, Value
from pilotage.model.documents.world import World
from pilotage.model.records.observations import PilotSighting
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot
from pilotage.model.rules.retry_causes import EXCEEDED
from pilotage.model.rules.timeouts import absent
from pilotage.model.values.step_names import PROVISION

HEARTBEATS = 2.5
"""Longest silence of a pilot that still runs, in heartbeats."""

LONGEST_WAITS = 300
"""Most characters of the reason why a pilot does not start."""


def observed(world: World) -> Decision:
    """Record submissions. Give up pilots that ended silently at their site, or are stuck there.

    A submitted pilot becomes SUBMITTED with its reference. One that has called home already only gets the
    reference. A refused one FAILS with the error. A running pilot with an ended batch job fails after
    ``end_doubt`` s of silence. For other pilots that do not start, record why.
    """
    pilots = {pilot.id: pilot for pilot in world.pilots}
    ends = (*_ended(world, pilots), *_ended_silently(world), *_stuck(world, pilots), *_lost(world, pilots))
    notes = (*_noted_ends(world, pilots), *_waiting(world, pilots), *_missing(world, pilots))
    notes = (*notes, *_taken_over(world))
    changes = (*_submitted(world, pilots), *_refused(world, pilots), *ends, *notes)
    return Decision(step=PROVISION, time=world.time, seed=world.seed, changes=changes)


def _submitted(world: World, pilots: dict[int, Pilot]) -> list[Change]:
    """Set the reference separately from the state, because a quick pilot may call home before this commit."""
    by_queue: dict[str, list[int]] = defaultdict(list)
    references: list[Change] = []
    for submission in world.submissions:
        pilot = pilots.get(submission.pilot)
        if pilot is None or submission.error or submission.unknown:
            continue
        if pilot.state is PilotState.CREATED:
            by_queue[pilot.queue].append(pilot.id)
        changes: dict[str, Value] = {"reference": submission.reference}
        references.append(Touch(kind="pilot", ids=(pilot.id,), changes=changes))
    moves = [
        Move(
            kind="pilot",
            ids=tuple(sorted(ids)),
            source=PilotState.CREATED,
            target=PilotState.SUBMITTED,
            cause=f"in the queue of {queue}",
        )
        for queue, ids in sorted(by_queue.items())
    ]
    return [*moves, *references]


def _refused(world: World, pilots: dict[int, Pilot]) -> list[Move]:
    errors = {
        submission.pilot: f"not submitted: {submission.error}"
        for submission in world.submissions
        if submission.error
    }
    return _failed(world, pilots, errors, (PilotState.CREATED,))


def _taken_over(world: World) -> list[Touch]:
    """Claim pilots that wait for a silent server to submit them, or have no server. Only one server gets
    each.

    Skip pilots of live servers, which may still wait for the batch system's answer.
    """
    able = {
        queue.name for queue in world.federation.queues if queue.computing_element
    } - world.unable_queues.keys()
    by_server: dict[str, list[int]] = defaultdict(list)
    gone = {"", *world.servers_gone} - {world.server}
    for pilot in world.pilots:
        if awaits_submission(pilot) and pilot.queue in able and pilot.server in gone:
            by_server[pilot.server].append(pilot.id)
    changes: dict[str, Value] = {"server": world.server}
    return [
        Touch(kind="pilot", ids=tuple(sorted(ids)), changes=changes, server_read=server)
        for server, ids in sorted(by_server.items())
    ]


def awaits_submission(pilot: Pilot) -> bool:
    """Return whether there is no record yet that a pilot was submitted."""
    return pilot.state is PilotState.CREATED and not pilot.reference


def _ended(world: World, pilots: dict[int, Pilot]) -> list[Move]:
    """Fail waiting pilots that ended. They have no attempts, so a wrong answer loses none."""
    errors = {sighting.pilot: _reason(sighting) for sighting in world.sightings if sighting.state == "ended"}
    return _failed(world, pilots, errors, (PilotState.SUBMITTED,))


def end_doubt(sighting: PilotSighting, heartbeat: float) -> float:
    """Return after how many s of silence a running pilot with an ended batch job counts as ended.

    If the pilot was submitted twice, it may run in the other batch job. Then it calls at least twice in this
    time. ``heartbeat`` is the longest time between its calls in s.
    """
    return max(HEARTBEATS * heartbeat, sighting.end_doubt)


def _ended_silently(world: World) -> list[Move]:
    """Fail running pilots that have not called since their batch job ended."""
    errors = {}
    for pilot in world.pilots:
        since = pilot.ended_there_since
        if since is None or pilot.state is not PilotState.RUNNING or _outlives(world, pilot):
            continue
        timeouts = world.federation.timeouts
        away = absent(world.absences, pilot.queue, timeouts, since, world.time)
        if world.time - since - away >= pilot.end_doubt:
            errors[pilot.id] = pilot.error
    return _failed(world, {pilot.id: pilot for pilot in world.pilots}, errors, (PilotState.RUNNING,))


def _outlives(world: World, pilot: Pilot) -> bool:
    """Return whether a pilot has called since its batch job ended, so that it must run in another one.

    The last call from the ended job may arrive a little late.
    """
    late = world.federation.loops.heartbeat / 4
    return pilot.ended_there_since is not None and pilot.last_heard > pilot.ended_there_since + late


def _noted_ends(world: World, pilots: dict[int, Pilot]) -> list[Touch]:
    """Record when batch jobs of running pilots ended, and why. Erase that if a pilot has called since."""
    ends: dict[tuple[str, float], list[int]] = defaultdict(list)
    for sighting in world.sightings:
        pilot = pilots.get(sighting.pilot)
        is_first = pilot and pilot.state is PilotState.RUNNING and pilot.ended_there_since is None
        if is_first and (sighting.state == "ended" or is_stopped(sighting)):
            doubt = end_doubt(sighting, world.federation.loops.heartbeat)
            ends[_reason(sighting), doubt].append(sighting.pilot)
    outliving = tuple(sorted(pilot.id for pilot in world.pilots if _outlives(world, pilot)))
    forgotten: dict[str, Value] = {"ended_there_since": None, "reference": "", "error": ""}
    return [
        *(
            Touch(
                kind="pilot",
                ids=tuple(sorted(ids)),
                changes={"ended_there_since": world.time, "end_doubt": doubt, "error": reason},
            )
            for (reason, doubt), ids in sorted(ends.items())
        ),
        *([Touch(kind="pilot", ids=outliving, changes=forgotten)] if outliving else ()),
    ]


def _stuck(world: World, pilots: dict[int, Pilot]) -> list[Move]:
    """Fail pilots that their batch system holds: they would keep their places until a person looks at
    them."""
    errors = {
        sighting.pilot: f"does not start: {sighting.reason or 'its batch system holds it'}"
        for sighting in world.sightings
        if sighting.state == "stuck" and not sighting.excess
    }
    stopped = {sighting.pilot: _reason(sighting) for sighting in world.sightings if is_stopped(sighting)}
    return _failed(world, pilots, errors | stopped, (PilotState.SUBMITTED,))


def is_stopped(sighting: PilotSighting) -> bool:
    """Return whether a batch system ended a pilot for its memory or time, and now holds it."""
    return sighting.state == "stuck" and bool(sighting.excess)


def _lost(world: World, pilots: dict[int, Pilot]) -> list[Move]:
    """Fail pilots that their batch system forgot: they would count as waiting for hours, instead of new
    ones."""
    errors = {
        sighting.pilot: f"lost by its batch system: {sighting.reason}"
        for sighting in world.sightings
        if sighting.pilot in pilots and is_lost(sighting, pilots[sighting.pilot], world)
    }
    return _failed(world, pilots, errors, (PilotState.SUBMITTED,))


def is_lost(sighting: PilotSighting, pilot: Pilot, world: World) -> bool:
    """Return whether a pilot has been missing from its batch system for ``missing_pilot_time``."""
    since = pilot.missing_since
    limit = world.federation.director.missing_pilot_time
    return sighting.missing and since is not None and world.time - since >= limit


def _missing(world: World, pilots: dict[int, Pilot]) -> list[Touch]:
    """Record since when waiting pilots are missing from their batch systems. An unreachable batch system
    changes nothing."""
    first, back = [], []
    for sighting in world.sightings:
        pilot = pilots.get(sighting.pilot)
        if pilot is None or pilot.state is not PilotState.SUBMITTED:
            continue
        if sighting.missing and pilot.missing_since is None:
            first.append(pilot.id)
        elif sighting.state in ("waiting", "running") and pilot.missing_since is not None:
            back.append(pilot.id)
    return [
        Touch(kind="pilot", ids=tuple(sorted(ids)), changes={"missing_since": since})
        for ids, since in ((first, world.time), (back, None))
        if ids
    ]


def _waiting(world: World, pilots: dict[int, Pilot]) -> list[Touch]:
    by_text: dict[str, list[int]] = defaultdict(list)
    for sighting in world.sightings:
        pilot = pilots.get(sighting.pilot)
        text = waits(sighting.state, sighting.reason)
        if (
            pilot
            and pilot.state is PilotState.SUBMITTED
            and sighting.state != "stuck"
            and not is_lost(sighting, pilot, world)
            and text != pilot.waits
        ):
            by_text[text].append(pilot.id)
    return [
        Touch(kind="pilot", ids=tuple(sorted(ids)), changes={"waits": text})
        for text, ids in sorted(by_text.items())
    ]


def waits(state: str, reason: str) -> str:
    """Return the batch system's reason why a pilot does not start, on one line; empty if it gives none."""
    text = " ".join(reason.split()) if state in ("waiting", "unknown") else ""
    text = f"cannot be seen: {text}" if text and state == "unknown" else text
    return text if len(text) <= LONGEST_WAITS else f"{text[: LONGEST_WAITS - 3]}..."


def _reason(sighting: PilotSighting) -> str:
    reason = f": {sighting.reason}" if sighting.reason else ""
    code = "" if sighting.exit_code is None else f" (exit code {sighting.exit_code})"
    if sighting.excess:
        return f"{EXCEEDED[sighting.excess]}stopped by its batch system{reason}{code}"
    return f"its batch job ended without a report{reason}{code}"


def _failed(
    world: World, pilots: dict[int, Pilot], errors: dict[int, str], sources: tuple[PilotState, ...]
) -> list[Move]:
    """Return one move for all pilots that fail from the same state for the same reason."""
    groups: dict[tuple[PilotState, str], list[int]] = defaultdict(list)
    for id_, error in errors.items():
        if id_ in pilots and pilots[id_].state in sources:
            groups[pilots[id_].state, error].append(id_)
    return [
        Move(
            kind="pilot",
            ids=tuple(sorted(ids)),
            source=state,
            target=PilotState.FAILED,
            cause=error,
            changes={"error": error, "ended": world.time},
        )
        for (state, error), ids in sorted(groups.items())
    ]
