"""Keep pilots in the sites' queues: record, submit and check them (P1 to P12)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pilotage.flow.brokerages import Brokerages
from pilotage.flow.outside.elements import place_of
from pilotage.flow.outside.inquiries import submitted_beside
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step
from pilotage.model.documents.decision import Committed, Create, Decision, Touch
from pilotage.model.documents.subjects import PILOT, QUEUE, TASK_QUEUE
from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_PILOTS, PILOTS_AT_A_SITE, JobState, PilotState
from pilotage.model.records.work import NewPilot, Pilot
from pilotage.model.values.identity import Credential
from pilotage.model.values.phrases import plural
from pilotage.model.values.step_names import PROVISION
from pilotage.policies.pilots import (
    circuit_breakers,
    credentials,
    list_match,
    owner_credentials,
    queue_test_pilots,
    submissions,
)
from pilotage.policies.pilots.task_queues import element_of
from pilotage.ports.computing import PilotOrder
from pilotage.store.pilots.world import bounding_advertisements, live_and_ended_pilots

ASKED_AGAIN_AFTER = 30.0
"""Seconds after which a server submits a pilot again that it has no answer about."""

Submission = tuple[str, str, str, str]
"""Queue, server, submit pool and credential."""


def _observed(runtime: Runtime, world: World, decision: Decision, committed: Committed) -> None:
    """Forget recorded reports, check the pilots at their sites, and ask what an iteration needs."""
    runtime.elements.submissions.forget(world.submissions)
    runtime.elements.sightings.forget(world.sightings)
    at_site: dict[str, list[Pilot]] = defaultdict(list)
    for pilot in world.pilots:
        if pilot.state in PILOTS_AT_A_SITE and pilot.reference:
            at_site[pilot.queue].append(pilot)
    for queue in world.federation.queues:
        if queue.computing_element and queue.name in at_site and queue.name not in world.unable_queues:
            lost_since = world.time - world.federation.director.missing_pilot_time
            runtime.elements.look(queue, at_site[queue.name], lost_since)
    _ask(runtime, world)
    _resubmit(runtime, world, _claimed(decision, committed))
    _cancel_late(runtime, world)
    _cancel_stuck(runtime, world)


def _ask(runtime: Runtime, world: World) -> None:
    """Ask batch systems for resources (P8), and ranked servers for their load (P6)."""
    queues = {queue.name: queue for queue in world.federation.queues if queue.computing_element}
    inquiries = runtime.elements.inquiries
    inquiries.keep(queues)
    for question in list_match.to_ask(world):
        queue = queues[question.queue]
        place = place_of(queue, question.server)
        inquiries.ask(queue, place, question, world.time, world.federation.director.open_for)
    ranked = [queue for queue in queues.values() if queue.computing_element and queue.computing_element.rank]
    for queue in ranked:
        for server in circuit_breakers.server_names(queue):
            references = submitted_beside(world.pilots, queues.values(), queue, server)
            inquiries.survey(queue, place_of(queue, server), server, world.time, references)


def _claimed(decision: Decision, committed: Committed) -> set[int]:
    """Return the pilots that this server has just taken over."""
    return {
        pilot
        for change, ids in zip(decision.changes, committed.accepted, strict=True)
        if isinstance(change, Touch) and change.server_read is not None
        for pilot in ids
    }


def _resubmit(runtime: Runtime, world: World, claimed: set[int]) -> None:
    """Submit pilots that this server has claimed, and again its own ones after a doubtful submission.

    The batch system knows pilots by name, and accepts none twice.
    """
    # Their answer has arrived, and was just forgotten here because this pass records it.
    answered = {submission.pilot for submission in world.submissions}
    waiting = [
        pilot for pilot in world.pilots if submissions.awaits_submission(pilot) and pilot.id not in answered
    ]
    own_pilots = [pilot for pilot in waiting if pilot.id in claimed or _is_due(world, pilot)]
    orders = [(pilot.id, pilot) for pilot in own_pilots if pilot.id not in runtime.elements.submissions]
    _hand_over(runtime, world, orders)


def _is_due(world: World, pilot: Pilot) -> bool:
    """Return whether to submit this server's own pilot now, for the first time or again."""
    is_late = queue_test_pilots.is_test_pilot(pilot) or world.time - pilot.created >= ASKED_AGAIN_AFTER
    return is_late and pilot.server == world.server


def _cancel_late(runtime: Runtime, world: World) -> None:
    """End given-up pilots at their sites once their submission is known."""
    queues = {queue.name: queue for queue in world.federation.queues if queue.computing_element}
    ended = {pilot.id: pilot for pilot in world.pilots if pilot.state not in LIVE_PILOTS}
    for submission in world.submissions:
        pilot = ended.get(submission.pilot)
        if pilot and submission.reference and pilot.queue in queues:
            runtime.elements.cancel(queues[pilot.queue], [replace(pilot, reference=submission.reference)])


def _cancel_stuck(runtime: Runtime, world: World) -> None:
    """End pilots at their sites that are held, in error or missing there: they would be of no use later."""
    queues = {queue.name: queue for queue in world.federation.queues if queue.computing_element}
    pilots = {pilot.id: pilot for pilot in world.pilots}
    stuck: dict[str, list[Pilot]] = defaultdict(list)
    for sighting in world.sightings:
        pilot = pilots.get(sighting.pilot)
        if pilot is None or pilot.queue not in queues or pilot.ended_there_since is not None:
            continue
        states = (PilotState.SUBMITTED, PilotState.RUNNING) if sighting.excess else (PilotState.SUBMITTED,)
        is_stuck = sighting.state == "stuck" or submissions.is_lost(sighting, pilot, world)
        if is_stuck and pilot.state in states:
            stuck[pilot.queue].append(pilot)
    for name, given_up in stuck.items():
        runtime.elements.cancel(queues[name], given_up)


def _submit(runtime: Runtime, world: World, decision: Decision, committed: Committed) -> None:
    """Submit recorded pilots to their computing elements."""
    pilots = [
        (id_, record)
        for change, ids in zip(decision.changes, committed.created, strict=True)
        if isinstance(change, Create)
        for record, id_ in zip(change.records, ids, strict=True)
        if isinstance(record, NewPilot) and id_ is not None
    ]
    _hand_over(runtime, world, pilots)


def _hand_over(runtime: Runtime, world: World, pilots: Sequence[tuple[int, NewPilot | Pilot]]) -> None:
    """Make one submission for all pilots of a submit pool, a server and a credential."""
    queues = {
        queue.name: queue
        for queue in world.federation.queues
        # Leave pilots that this process cannot submit to another process.
        if queue.computing_element and queue.name not in world.unable_queues
    }
    submittable = [(id_, pilot) for id_, pilot in pilots if pilot.queue in queues]
    if not submittable:
        return
    expires = credentials.enrolment_end(world.time, world.federation.director)
    tokens = runtime.store.tokens.create_all(
        [
            Credential(role="enrolment", identity=pilot.owner, pilot=id_, expires=expires)
            for id_, pilot in submittable
        ]
    )
    orders: dict[Submission, list[PilotOrder]] = defaultdict(list)
    for (id_, pilot), token in zip(submittable, tokens, strict=True):
        order = PilotOrder(
            pilot=id_,
            name=_name(world, id_, pilot),
            token=token,
            server_url=runtime.server_url,
            cores=pilot.cores,
            memory=pilot.memory,
            walltime=pilot.walltime,
            slots=pilot.slots,
            control_groups=element_of(queues[pilot.queue]).control_groups,
        )
        orders[pilot.queue, pilot.broker, pilot.submit_pool, pilot.credential].append(order)
    for (name, server, pool, credential), pool_orders in orders.items():
        runtime.elements.submit(queues[name], server, pool, pool_orders, credential)


def _name(world: World, number: int, pilot: NewPilot | Pilot) -> str:
    """Return a name that no other pilot of any server has.

    Numbers begin again with each store, and federations of one name are many: the time tells them apart.
    """
    created = pilot.created if isinstance(pilot, Pilot) else world.time
    return f"{world.federation.name}-{int(created):x}-pilot-{number}"


def _phases(world: World, _: Brokerages) -> Sequence[Phase]:
    observing = Phase(actor=PROVISION, decide=submissions.observed, act=_observed, records=True)
    if not (world.task_queues or world.borrowable_lines):
        return (observing,)
    # This imports numpy, which a server without work does not need.
    from pilotage.policies.pilots import director

    return observing, Phase(actor=PROVISION, decide=director.provision, act=_submit)


def _idle(world: World) -> Iterator[str]:
    waiting = sum(entry.jobs for entry in world.task_queues)
    if not waiting:
        yield "no job is activated, so none waits for a pilot"
        return
    served = {queue.name for queue in world.federation.queues if queue.computing_element}
    without = sorted({entry.queue for entry in world.task_queues if entry.jobs} - served)
    if without:
        yield f"no pilots are started from here at {', '.join(without)}"
    for name, reason in sorted(world.unable_queues.items()):
        yield f"no pilots are submitted to {name} from this server: {reason}"
    if questions := list_match.to_ask(world):
        yield f"{plural(len(questions), 'answer')} of batch systems to list-match awaited"
    yield from list_match.problems(world)
    yield from owner_credentials.problems(world)
    from pilotage.policies.pilots import director

    if wait := director.due_in(world):
        yield f"the next iteration is due in {wait:.0f} s"
        return
    yield f"{plural(waiting, 'job')} waiting for pilots; the draw, the bound or the room gave none"


STEP = Step(
    name=PROVISION,
    place=6,
    summary="Keep pilots in the sites' queues.",
    reads=(
        *("submissions", "sightings", "task_queues", live_and_ended_pilots, "job_counts"),
        *(bounding_advertisements, "iterated", "borrowable_lines", "lifted_breakers", "lacking_nodes"),
        *("server_reports", "list_matches", "silent_servers", "pool_reports", "unable_queues"),
        "unusable_credentials",
        *("server", "servers_gone", "absences"),
    ),
    phases=_phases,
    subjects=(TASK_QUEUE, PILOT, QUEUE),
    idle=_idle,
    in_hand=lambda runtime: runtime.elements.submissions.in_hand,
    wakes_on=frozenset(
        {
            ("job", JobState.ACTIVATED),
            ("pilot", PilotState.FINISHED),
            ("pilot", PilotState.FAILED),
            ("pilot", PilotState.CANCELLED),
        }
    ),
)
