"""The one place that makes remarks: on tasks, jobs, queues, transfers, and records set aside."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from pilotage.explain import chains, job_files, pilots, publications, queues, task_waits
from pilotage.flow.calls.places import circuit_breakers, conditions
from pilotage.flow.calls.work import pending_jobs, sure_waits
from pilotage.flow.loops.isolation import POLICY
from pilotage.flow.loops.set_aside import PERSON, person
from pilotage.flow.runtime import Runtime
from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.documents.remarks import Remark, in_order
from pilotage.model.records.federation import Queue
from pilotage.model.records.publications import author_of, is_own
from pilotage.model.records.states import (
    AT_A_PILOT,
    ENDED,
    LIVE_TASKS,
    TRANSFERS_AHEAD,
    UNSTARTED_JOBS,
    JobState,
    NotificationState,
    TaskState,
    TransferState,
)
from pilotage.model.records.unified_queues import pilot_limits
from pilotage.model.records.work import Pilot, Requirements, Transfer
from pilotage.model.rules import site_limits
from pilotage.model.rules.likely_ends import LikelyEnd, likely_end
from pilotage.model.rules.plugins import plugin_of
from pilotage.model.rules.queue_condition import QueueCondition
from pilotage.model.values.identity import Identity
from pilotage.model.values.phrases import duration, moment
from pilotage.model.values.scopes import version_of
from pilotage.policies.pilots import fitting, list_match, owner_credentials
from pilotage.store import JobDetails, SetAsideRecord, StageView, Store, TaskDetails, TaskView

_GOES_ON = (TaskState.SPLITTING, TaskState.RUNNING)
_WAITING = (JobState.PENDING, JobState.DEFINED, *UNSTARTED_JOBS)

MOST_STAGES = 20
"""Most tasks of a workflow that an answer explains by their queues and jobs."""

MOST_SET_ASIDE = 1000
"""Most records of one answer that are set aside."""

EVERYBODYS = ("queue", "site", "task queue")
"""Kinds of records with names that everyone may read."""


def of_task(runtime: Runtime, task: TaskDetails, *, is_recent: bool = False) -> tuple[Remark, ...]:
    """Return all remarks on a task, the most important first.

    With ``is_recent``, slow parts come from a cache of some seconds: people who follow a task ask often.
    """
    subject = f"task:{task.id}"
    results = runtime.store.results_in_spools.of_task(task.id)
    remarks = [
        *job_files.of_waiting_results(subject, results, runtime.clock()),
        *published(runtime, task),
        *notified(runtime, task),
    ]
    if task.state not in ENDED["task"]:
        faults = faults_of(runtime, task)

        def slow() -> list[Remark]:
            return [*sure_waits.of_task(runtime, task, faults), *_place(runtime, task)]

        key = (task.id, task.changes, tuple(task.jobs.items()))
        later = runtime.recent_remarks.get(key, runtime.clock(), slow) if is_recent else slow()
        remarks += [*stops_of(runtime, task), *faults, *later]
    return in_order(remarks)


def faults_of(runtime: Runtime, task: TaskDetails) -> list[Remark]:
    """Return remarks on what its jobs wait for now, and on faults that a person must mend."""
    return [*_set_aside_of(runtime, task), *_of_places(runtime, task), *_waits(runtime, task)]


def of_workflow(runtime: Runtime, stages: Sequence[StageView]) -> Iterator[tuple[StageView, Remark]]:
    """Yield why tasks of a workflow do not start or failed, and what keeps the jobs of the first ones."""
    yield from chains.of_stages(stages)
    for stage in islice((stage for stage in stages if stage.state in LIVE_TASKS), MOST_STAGES):
        if task := runtime.store.queries.task(stage.id):
            yield from ((stage, remark) for remark in faults_of(runtime, task) if remark.kind != "wait")


def stops_of(runtime: Runtime, task: TaskDetails) -> Iterator[Remark]:
    """Yield who or what holds a task, and the steps before its jobs."""
    subject, queries = f"task:{task.id}", runtime.store.workflow_queries
    if task.state is TaskState.WAITING:
        before, on_end = queries.predecessors(task.id), queries.is_on_end(task.id)
        yield from chains.stops(task, before, on_end, queries.blocked_by(task.id))
    else:
        yield from chains.stops(task, (), False)
    if task.state is TaskState.REGISTERED and not task.held:
        yield Remark(kind="wait", subject=subject, text="it waits to be split into jobs", mend="wait")
    elif task.state is TaskState.SCOUTING:
        text = "its scouts go first: the other jobs are made when these have shown what they need"
        yield Remark(kind="wait", subject=subject, text=text, mend="wait")


def _waits(runtime: Runtime, task: TaskDetails) -> Iterator[Remark]:
    """Yield what the jobs of a task wait for."""
    if task.held:
        return
    subject, queries = f"task:{task.id}", runtime.store.queries
    choices = queries.task_choices(task.id, 1) if task.jobs.get(JobState.PENDING) else []
    queue_names = queries.where_jobs_wait(task.id) if task.jobs.get(JobState.ACTIVATED) else []
    if remark := task_waits.waiting_cause(subject, task.jobs, choices[0] if choices else None, queue_names):
        yield remark
    if throttled := task.jobs.get(JobState.THROTTLED):
        yield task_waits.throttled(subject, throttled, pending_jobs.full_quotas(runtime, task.owner, task.vo))


def cause(runtime: Runtime, task: TaskView, state: JobState, *, is_explained: bool = True) -> Remark:
    """Return why jobs of a task in one state wait; unless it ``is_explained``, by their state alone.

    For jobs that wait for a pilot, explain why none comes; for pending ones, name the obstacle.
    """
    subject, queries, choice = f"task:{task.id}", runtime.store.queries, None
    if is_explained and state is JobState.PENDING:
        choice = next(iter(queries.task_choices(task.id, 1)), None)
    elif is_explained and state is JobState.ACTIVATED:
        for fault in filter(None, map(queues.fault, conditions.where_it_waits(runtime, task))):
            return replace(fault, text=f"{task_waits.CAUSES[state]}; {fault.text}")
    return task_waits.cause(subject, state, choice)


def _of_places(runtime: Runtime, task: TaskDetails) -> Iterator[Remark]:
    """Yield why nothing starts at queues where a task's jobs wait for a pilot, unless some have one.

    Also yield the files that wait for a server to move them, and jobs that wait for a server with their
    brokerage or key.
    """
    queues_there = conditions.where_it_waits(runtime, task)
    yield from filter(None, map(queues.fault, queues_there))
    for text in (
        *conditions.waits_for_brokerage(runtime, task),
        *conditions.waits_for_others(runtime, task),
        *conditions.waits_for_key(runtime, task),
    ):
        yield _fault(f"task:{task.id}", text)


def _fault(subject: str, text: str, command: str = "pilotage doctor") -> Remark:
    return Remark(kind="fault", subject=subject, text=text, mend="operator", command=command)


def _place(runtime: Runtime, task: TaskDetails) -> Iterator[Remark]:
    """Yield its place in line and its likely end; nothing is ahead of a task without a job to start."""
    if task.held:
        return
    subject, ahead = f"task:{task.id}", 0
    if any(task.jobs.get(state) for state in _WAITING):
        tasks, ahead = runtime.store.job_lists.ahead(task.share, task.priority, task.id)
        if tasks:
            yield task_waits.line(subject, tasks, ahead, task.share)
    last = runtime.store.queries.task_choices(task.id, 1) if task.jobs.get(JobState.PENDING) else []
    # Jobs that no queue takes may wait for ever.
    if not (last and not last[0].candidates.queues) and (end := end_of(runtime, task, ahead)):
        yield task_waits.likely(subject, end, runtime.clock())


def end_of(runtime: Runtime, task: TaskDetails, ahead: int) -> LikelyEnd | None:
    """Return when a task is likely to end behind so many jobs.

    None if that is unknown: also before its scouts have ended, if it is held, or if it merges.
    """
    if task.state not in _GOES_ON or task.held or task.spec.merge or task.jobs.get(JobState.HELD):
        return None
    if not task.jobs.get(JobState.FINISHED):
        return None
    existing = sum(task.jobs.values())
    unmade = max(0, task.spec.planned_jobs - existing) if task.state is TaskState.SPLITTING else 0
    waiting = sum(task.jobs.get(state, 0) for state in (*_WAITING, JobState.THROTTLED))
    progress = runtime.store.job_lists.progress(task.id, task.share, runtime.clock())
    return likely_end(replace(progress, waiting=waiting + unmade, ahead=ahead))


def notified(runtime: Runtime, task: TaskDetails) -> list[Remark]:
    """Return a remark on the notifications of a task; nothing if there are none."""
    sending = runtime.store.notification_queries.of_task(task.id)
    remark = notification_remark(task.id, sending, runtime.clock())
    return [remark] if remark else []


def published(runtime: Runtime, task: TaskDetails) -> list[Remark]:
    """Return how far a task's outputs are registered; nothing if it wants no registration."""
    dataset = task.spec.output_dataset
    if not dataset:
        return []
    registration = runtime.store.publication_queries.of_task(task.id)
    if is_own(dataset):
        version = runtime.store.datasets.made_by(dataset, author_of(task.id))
        return [publications.of_own(task.id, task.state, version_of(dataset, version), registration.closing)]
    return list(publications.of_task(task.id, dataset, registration, runtime.clock()))


def of_job(runtime: Runtime, job: JobDetails) -> tuple[Remark, ...]:
    """Return the remarks on a job: why it waits in its state."""
    task = runtime.store.queries.task(job.task)
    remarks = _set_aside_of(runtime, task) if task and task.state not in ENDED["task"] else []
    if job.state in AT_A_PILOT:
        remarks += _at_a_pilot(runtime, job)
    elif job.state is JobState.ACTIVATED:
        remarks += _activated(runtime, job)
    elif task and job.state is JobState.THROTTLED:
        full = pending_jobs.full_quotas(runtime, task.owner, task.vo)
        fails_at = job.since + runtime.store.federation().timeouts.throttled
        remarks.append(task_waits.throttled(f"job:{job.id}", 1, full, fails_at))
    elif task and job.state not in ENDED["job"]:
        its_own = replace(task, jobs={job.state: 1}, held="")
        remarks += [*_of_places(runtime, its_own), *_waits(runtime, its_own)]
    return in_order(remarks)


def _at_a_pilot(runtime: Runtime, job: JobDetails) -> Iterator[Remark]:
    """Yield remarks on waiting results, on the end of its pilot's batch job, and on the pilot's last call."""
    subject, now = f"job:{job.id}", runtime.clock()
    pilot = None if job.pilot is None else runtime.store.queries.pilot(job.pilot)
    waiting = runtime.store.results_in_spools.of_task(job.task)
    mine = [results for results in waiting if (results.job, results.attempt) == (job.id, job.attempt)]
    yield from job_files.of_waiting_results(subject, mine, now)
    if pilot and (ended := pilots.of_end(pilot)):
        yield ended
    if pilot and pilot.heartbeat is not None:
        text = f"pilot {pilot.id} of {job.queue}, which has it, called {duration(now - pilot.heartbeat)} ago"
        yield Remark(kind="wait", subject=subject, text=text, mend="wait", since=pilot.heartbeat)


def _activated(runtime: Runtime, job: JobDetails) -> Iterator[Remark]:
    """Yield the known reasons why no pilot takes a job."""
    subject, queries = f"job:{job.id}", runtime.store.queries
    federation, requirements = runtime.store.federation(), queries.requirements(job.id)
    queue = next((queue for queue in federation.queues if queue.name == job.queue), None)
    if queue is None:
        return
    yield from filter(None, map(queues.fault, conditions.of_queues(runtime, [queue.name])))
    yield from (_fault(subject, text) for text in conditions.job_waits_for_key(runtime, requirements))
    if requirements and fitting.eligible_pilots(queue, requirements, queries.live_pilots(queue.name)):
        return
    live = queries.live_pilots()
    yield from pilots.of_full(subject, pilot_limits(federation).get(queue.name, ()), live)
    yield from _of_site(runtime, subject, queue.site, live)
    # No server of the queue that this process has asked accepts pilots for it (P8).
    world = runtime.elements.with_list_matches(runtime.world())
    if requirements and (
        problem := list_match.Answers(world).problem(queue, Requirements.from_text(requirements))
    ):
        yield replace(_fault(subject, f"no pilot is submitted: {problem}"), rule="P8")
    yield from _credential_fault(runtime, subject, queue, requirements)


def _credential_fault(runtime: Runtime, subject: str, queue: Queue, text: str) -> Iterator[Remark]:
    """Yield that the owner's credential cannot be used, if no other pilot may run the job (P9)."""
    if not text or not queue.computing_element:
        return
    federation, requirements = runtime.store.federation(), Requirements.from_text(text)
    unusable = runtime.elements.unusable_credentials(federation, runtime.clock())
    world = replace(runtime.world(), unusable_credentials=unusable)
    if problem := owner_credentials.obstacle(world, queue, requirements):
        yield replace(_fault(subject, f"no pilot is submitted: {problem}"), rule="P9")


def _of_site(runtime: Runtime, subject: str, site: str, live: Sequence[Pilot]) -> Iterator[Remark]:
    """Yield the limits of a site that stop the director from requesting pilots."""
    bounds = site_limits.all_bounds(runtime.world("advertisements", "job_counts"))
    there = [pilot for pilot in live if pilot.site == site]
    return pilots.of_throttled(subject, site, bounds.get(site, site_limits.NO_BOUNDS), there)


def of_queue(runtime: Runtime, condition: QueueCondition) -> tuple[Remark, ...]:
    """Return why nothing starts at a queue, and which steps have set it or its site aside."""
    fault = queues.fault(condition)
    aside = set_aside(runtime, ("queue", condition.queue.name), ("site", condition.queue.site))
    return in_order([*([fault] if fault else []), *aside])


def of_transfer(runtime: Runtime, transfer: Transfer) -> tuple[Remark, ...]:
    """Return the obstacle of a transfer: this server, a circuit breaker (F4), or a step that fails at it."""
    subject, remarks = f"transfer:{transfer.id}", [*set_aside(runtime, ("transfer", transfer.id))]
    if transfer.state in (TransferState.QUEUED, *TRANSFERS_AHEAD):
        if obstacle := conditions.unable_to_move(runtime, transfer.source, transfer.destination):
            remarks.append(
                _fault(subject, f"it waits for a server that can move it; this one cannot: {obstacle}")
            )
        breakers = circuit_breakers.of_storages(runtime)
        concerned = (
            breaker for breaker in breakers if breaker.concerns(transfer.source, transfer.destination)
        )
        remarks += [_of_breaker(breaker, runtime.clock()) for breaker in concerned]
    return in_order(remarks)


def _of_breaker(breaker: CircuitBreaker, time: float) -> Remark:
    """Return what a circuit breaker of a storage holds back at a time, until when and why."""
    return Remark(
        kind="fault",
        subject=f"storage:{breaker.place[1] or breaker.place[0]}",
        text=breaker.line(time),
        rule=breaker.words.rule,
        mend="operator",
        command=f"pilotage breakers lift {min(breaker.names)}",
        since=breaker.since,
        until=breaker.until,
    )


def set_aside(runtime: Runtime, *subjects: tuple[str, int | str]) -> Iterator[Remark]:
    """Yield a remark for each step that has set aside one of these records, given by kind and name.

    It has the time, the reason, and the event that ends this.
    """
    records = runtime.store.set_aside
    return map(_aside, chain.from_iterable(records.of(kind, str(name)) for kind, name in subjects))


def everything_set_aside(runtime: Runtime, *, to_operators: bool = True) -> list[Remark]:
    """Return such remarks on all records; for people who are no operators, only on shared kinds."""
    records = runtime.store.set_aside.everything()
    visible = [record for record in records if to_operators or record.subject in EVERYBODYS]
    return [*map(_aside, visible[:MOST_SET_ASIDE])]


def set_aside_errors(store: Store, subject: str) -> dict[str, str]:
    """Return why records of a kind are set aside, by name, in a few words for a list."""
    return {
        record.name: f"set aside by step {record.step}: {record.error}"
        for record in store.set_aside.everything()
        if record.subject == subject
    }


def _set_aside_of(runtime: Runtime, task: TaskDetails) -> list[Remark]:
    """Return such remarks on a task, and on its brokerage as a whole or for the task's owner."""
    owner = Identity(name=task.owner, vo=task.vo)
    plugin = plugin_of(task.spec, owner.vo, runtime.store.federation())
    ends = {POLICY: f":{plugin}", PERSON: f":{person(plugin, owner)}"}
    return [
        _aside(record)
        for record in runtime.store.set_aside.everything()
        if (record.subject, record.name) == ("task", str(task.id))
        or record.name.endswith(ends.get(record.subject, "\0"))
    ]


def _aside(record: SetAsideRecord) -> Remark:
    often = "once" if record.times == 1 else f"{record.times} times"
    among = f", together with {record.among - 1} others" if record.among > 1 else ""
    return Remark(
        kind="fault",
        subject=f"{record.subject}:{record.name}",
        text=f"set aside by step {record.step}, which failed at it {often} since "
        f"{moment(record.since)}{among}: {record.error}; tried again at {moment(record.retry_at)}, when the "
        "federation changes, and when a server starts, as after an upgrade",
        mend="operator",
        since=record.since,
        until=record.retry_at,
    )


Counts = Mapping[NotificationState, tuple[int, str, float]]
"""By state: how many notifications, an error of one of them, and when the next is sent, in s since 1970."""


def notification_remark(task: int, counts: Counts, time: float) -> Remark | None:
    """Return a remark on the notifications of a task; None if it has none. ``time`` is in s since 1970."""
    if not counts:
        return None
    counted = ", ".join(f"{counts[state][0]} {state}" for state in NotificationState if state in counts)
    line = f"notifications: {counted}"
    count, error, wake_at = counts.get(NotificationState.WAITING, (0, "", 0.0))
    if count and error:
        line = f"{line}; the next goes out in {duration(wake_at - time)}: {error}"
    _, error, _ = counts.get(NotificationState.FAILED, (0, "", 0.0))
    if error:
        line = f"{line}; failed: {error}"
    command = f"pilotage notify list --task {task}"
    return Remark(kind="notification", subject=f"task:{task}", text=line, command=command)
