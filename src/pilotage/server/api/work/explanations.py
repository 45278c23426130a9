"""Stored decisions with their analysis and as lines of text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from pilotage.explain import (
    borrowing,
    failures,
    history,
    job_files,
    pilots,
    queues,
    rendering,
    transfers,
)
from pilotage.explain.analysis import Explanation, explain
from pilotage.explain.layout import PLAIN, TextForm, folded, usage_of_attempt
from pilotage.explain.remarks import lines
from pilotage.flow.calls.places import conditions
from pilotage.flow.calls.work import borrowing_outlook, forwarded, remarks
from pilotage.flow.runtime import Runtime
from pilotage.flow.steps import step
from pilotage.model.circuit_breakers.breaker import seen_by
from pilotage.model.documents.decision import Choice, DatedChoice
from pilotage.model.documents.world import World
from pilotage.model.records.borrowing import Borrowing, Comparison
from pilotage.model.records.logs import Point
from pilotage.model.records.states import (
    AT_A_PILOT,
    TRANSFERS_AHEAD,
    UNSTARTED_JOBS,
    JobState,
    PilotState,
    TaskState,
)
from pilotage.model.records.transfer_queues import DELIVERING, PREPARING, TransferQueue, queue_of
from pilotage.model.records.work import FileOfJob, Pilot, Transfer
from pilotage.model.rules.plain_states import clause, job_state, task_state
from pilotage.model.values.identity import Owners
from pilotage.model.values.step_names import STAGE
from pilotage.policies.pilots import batch_waits, fitting
from pilotage.policies.staging import forecast, preparing, settle, slots, sources_now
from pilotage.store import JobDetails, TaskDetails

MOST_JOBS = 1000
"""Most jobs of a pilot that are listed."""


class Explained(BaseModel):
    """Decisions newest first, the analysis of each, and everything as ``lines`` of text."""

    choices: list[DatedChoice]
    explanations: list[Explanation]
    lines: list[str]


class TaskExplanation(Explained):
    """Why a task's jobs went where they went, or nowhere."""

    task: TaskDetails


class PilotExplanation(BaseModel):
    """The life of a pilot."""

    pilot: Pilot
    lines: list[str]


class JobExplanation(Explained):
    """Why a job went where it went, or nowhere."""

    job: JobDetails
    borrowings: list[Borrowing]
    """Attempts that pilots of other queues took (E2)."""
    comparisons: list[Comparison]
    """How pilots of other queues value it while it waits (E2)."""
    files: list[FileOfJob]
    """Its first inputs and outputs, and the way of each."""


class TransferExplanation(BaseModel):
    """The share, priority and place of a transfer."""

    transfer: Transfer
    lines: list[str]


class QueueExplanation(BaseModel):
    """Everything about one queue, and the decisions there about a task, as ``lines`` of text."""

    queue: str
    lines: list[str]


MOST_FAILED = 2000
"""Most failed jobs of a task that are searched for causes."""


def explained_queue(
    runtime: Runtime, name: str, choices: Sequence[DatedChoice], text: TextForm, owners: Owners
) -> QueueExplanation | None:
    """Return what some owners see of a queue, and its part in these decisions."""
    queue_conditions = conditions.of_queues(runtime, [name])
    if not queue_conditions:
        return None
    visible_condition = replace(queue_conditions[0], breakers=seen_by(queue_conditions[0].breakers, owners))
    unfolded = [
        *queues.of_queue(visible_condition, remarks.of_queue(runtime, visible_condition), text.rules),
        *queues.of_task(name, choices, text.rules),
    ]
    return QueueExplanation(queue=name, lines=folded(unfolded, text.width))


def placed_where_nothing_starts(runtime: Runtime, choices: Iterable[Choice]) -> list[str]:
    """Return why nothing can start at the queues of these choices."""
    names = sorted({queue for choice in choices for queue in choice.placed})
    troubles = (queues.trouble(condition) for condition in conditions.of_queues(runtime, names))
    return [f"warning: nothing starts: {trouble}" for trouble in troubles if trouble]


def explained_transfer(runtime: Runtime, transfer: Transfer, text: TextForm = PLAIN) -> TransferExplanation:
    """Return a transfer's life, and the reason why it waits if it is queued."""
    now, store = runtime.clock(), runtime.store
    queue = queue_of(transfer.state)
    waiting = _waiting(runtime, transfer, queue) if queue is not None else None
    events = store.queries.events("transfer", transfer.id)
    unfolded = [
        *transfers.of_transfer(transfer, events, store.federation().staging, now, waiting),
        *lines(remarks.of_transfer(runtime, transfer), text.rules),
    ]
    # Do not validate it: we made it just now, and checking a large one takes longer than making it.
    return TransferExplanation.model_construct(transfer=transfer, lines=folded(unfolded, text.width))


def _waiting(runtime: Runtime, transfer: Transfer, queue: TransferQueue) -> transfers.PlaceInQueue:
    """Return what a transfer waits for in its queue, by the accounts of the next pass."""
    world, accounts = slot_accounts(runtime)
    staging_world, queries = _with(world, transfer, runtime), runtime.store.transfer_queries
    room, live = sources_now.room_of(staging_world, queue), queries.live()
    bundle = world.federation.staging.files_per_slot
    ahead, before = queries.ahead_of(transfer, bundle)
    if queue is PREPARING:
        before += sum(
            each.slots(bundle)
            for each in live
            if each.share == transfer.share and each.state in TRANSFERS_AHEAD
        )
    constants, limits = world.federation.staging, sources_now.room_of(staging_world, DELIVERING)
    return transfers.PlaceInQueue(
        queue=queue,
        ahead=ahead,
        full=room.full(transfer),
        breaker=room.breaker(transfer),
        accounts=accounts,
        live=live,
        deliveries=forecast.deliveries_before(transfer, before, live, constants, limits),
        lasting=queries.delivery_time(),
    )


def slot_accounts(runtime: Runtime) -> tuple[World, dict[str, Mapping[str, Any]]]:
    """Return what staging reads, and its next pass's account of each queue's slots, by name."""
    begun = runtime.begin(runtime.store.federation().loops.batch)
    world = runtime.store.snapshots.read(begun, step(STAGE).plan.parts)
    decisions = (preparing.prepare(world), slots.start(world), settle.settle(world))
    return world, {name: account for decision in decisions for name, account in decision.notes.items()}


def _with(world: World, transfer: Transfer, runtime: Runtime) -> World:
    """Return a world of staging that includes a transfer far back in its queue, and the replicas of its
    file."""
    entry = runtime.store.catalogue.entry(transfer.file)
    if entry is None or transfer in world.transfers:
        return world
    return replace(
        world,
        transfers=(*world.transfers, transfer),
        replicas=(*world.replicas, *entry.replicas),
    )


def explained_task(
    runtime: Runtime, task: TaskDetails, choices: Sequence[DatedChoice], text: TextForm = PLAIN
) -> TaskExplanation:
    """Return a task's failures, the obstacles to its start, and the decisions about it."""
    task_remarks = remarks.of_task(runtime, task)
    unfolded = [*_failures(runtime, task), *lines(task_remarks, text.rules)]
    unfolded += rendering.of_choices(choices, text.rules) + forwarded.hints(runtime, choices)
    if not choices:
        seen = clause(task_state(task.state, task.jobs, task.held))
        unfolded.append(f"task {task.id} {seen}: no brokerage has decided about it yet")
    return TaskExplanation.model_construct(
        task=replace(task, remarks=task_remarks),
        choices=list(choices),
        explanations=[explain(choice) for choice in choices],
        lines=folded(unfolded, text.width),
    )


def explained_job(
    runtime: Runtime,
    job: JobDetails,
    choices: Sequence[DatedChoice],
    text: TextForm = PLAIN,
    used: tuple[int, Sequence[Point]] = (0, ()),
) -> JobExplanation:
    """Return the events of a job, the resources that its last attempt ``used`` (number, time line), and the
    decisions about it.

    For a job that waits for a pilot, add the pilots that could take it.
    """
    borrowed, queues_ = runtime.store.queries.borrowings(job.id)
    compared = borrowing_outlook.comparisons(runtime, job.id, queues_)
    unfolded = [
        *history.of_job(job),
        *borrowing.of_borrowings(borrowed),
        *lines(remarks.of_job(runtime, job), text.rules),
        *_eligible(runtime, job),
    ]
    files = _files_of(runtime, job, borrowed)
    unfolded += job_files.of_files(files)
    if job.state in UNSTARTED_JOBS and not queues_ and choices and len(choices[0].candidates.queues) > 1:
        unfolded.append(borrowing.of_none(job.queue, borrowing_outlook.said_of(runtime, job)))
    unfolded += [*borrowing.of_comparisons(job.queue, compared), *usage_of_attempt(*used)]
    unfolded += rendering.of_choices(choices, text.rules)
    unfolded += forwarded.explained(runtime, job)
    if not choices:
        unfolded.append(f"job {job.id} {clause(job_state(job.state))}: no brokerage has decided about it yet")
    return JobExplanation.model_construct(
        job=job,
        borrowings=borrowed,
        comparisons=compared,
        files=list(files),
        choices=list(choices),
        explanations=[explain(choice) for choice in choices],
        lines=folded(unfolded, text.width),
    )


def _files_of(runtime: Runtime, job: JobDetails, borrowed: Sequence[Borrowing]) -> tuple[FileOfJob, ...]:
    """Return the files of a job, with the way of each to or from its queue's storage."""
    federation = runtime.store.federation()
    home = next((queue.storage for queue in federation.queues if queue.name == job.queue), "")
    is_remote = any(borrowing.attempt == job.attempt and borrowing.reads for borrowing in borrowed)
    return job_files.with_ways(
        runtime.store.transfer_queries.files_of(job.id, home), federation, home, is_remote
    )


def _eligible(runtime: Runtime, job: JobDetails) -> Iterator[str]:
    """Yield the pilots that could take a job that waits for one."""
    declared = {queue.name: queue for queue in runtime.store.federation().queues}
    if job.state is JobState.ACTIVATED and job.queue in declared:
        requirements = runtime.store.queries.requirements(job.id)
        live = runtime.store.queries.live_pilots(job.queue)
        eligible = fitting.eligible_pilots(declared[job.queue], requirements, live) if requirements else []
        yield from pilots.of_eligible(job.queue, eligible, runtime.clock())


def explained_pilot(runtime: Runtime, number: int, text: TextForm = PLAIN) -> PilotExplanation | None:
    """Return why a pilot was made, which jobs it ran, and why it ended; None if it is unknown."""
    queries = runtime.store.queries
    pilot = queries.pilot(number)
    if pilot is None:
        return None
    jobs = queries.jobs_of_pilot(number, MOST_JOBS)
    elements = {queue.name: queue.computing_element for queue in runtime.store.federation().queues}
    has_credentials = bool((element := elements.get(pilot.queue)) and element.credentials)
    events = queries.events("pilot", number)
    unfolded = [*pilots.of_pilot(pilot, events, jobs, has_credentials=has_credentials)]
    if pilot.state is PilotState.RUNNING and not any(state in AT_A_PILOT for _, state in jobs):
        unfolded += _stay(runtime, pilot.queue)
    unfolded += lines(remarks.set_aside(runtime, ("pilot", number)), text.rules)
    return PilotExplanation(pilot=pilot, lines=folded(unfolded, text.width))


def _stay(runtime: Runtime, queue: str) -> Iterator[str]:
    """Yield how long an idle pilot of a queue stays (E5)."""
    federation, time = runtime.store.federation(), runtime.clock()
    for declared in federation.queues:
        if declared.name == queue:
            wait = batch_waits.expected_wait(runtime.store.queries.live_pilots(queue), time)
            yield "  without work it " + pilots.stays(
                batch_waits.stay(federation.loops, declared, wait), wait
            )


def _failures(runtime: Runtime, task: TaskDetails) -> list[str]:
    """Return how a task failed, with the causes of its jobs' failures."""
    first_line = task.error.partition("\n")[0]
    head = [f"task {task.id} {task.name} failed: {first_line}"] if task.state == TaskState.FAILED else []
    if not head and not task.jobs.get(JobState.FAILED):
        return []
    failed = runtime.store.job_lists.last_failures(task.id, MOST_FAILED)
    if len(failed) == MOST_FAILED:
        head.append(f"  the causes of the first {MOST_FAILED} jobs of which an attempt failed:")
    return [*head, *failures.of_failed(failed)]
