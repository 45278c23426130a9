"""Give a pilot that asks for work the jobs with the highest claim (P13)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from time import time as machine_time
from typing import TYPE_CHECKING, Any

from pilotage.agent.wire import JobOrder, MatchAnswer, Secret, Specification, Work
from pilotage.flow.calls.pilots.input_sources import Readings, sources
from pilotage.flow.calls.pilots.pilot_files import source_of
from pilotage.flow.calls.places.circuit_breakers import of_storages
from pilotage.flow.calls.work import secrets
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.serialization import to_document
from pilotage.model.documents.world import Heartbeat
from pilotage.model.records.federation import ComputingElement, Federation, Queue
from pilotage.model.records.logs import LogKey
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.work import JobKind, Pilot, Task, TaskSpec
from pilotage.model.rules.declared_environments import entered
from pilotage.model.rules.job_payload import payload_of, stdin_file, variables
from pilotage.model.rules.sources import Sources
from pilotage.model.rules.timeouts import LEASED, first_lease_of, heartbeat_of, lease_of, shortest_heartbeat
from pilotage.model.values.paths import scratch_path
from pilotage.policies.pilots import reports
from pilotage.store.jobs.logs import node_log
from pilotage.store.pilots.reports import told_by_pilots

if TYPE_CHECKING:
    from pilotage.flow.matching.matched import Matched


def match(
    runtime: Runtime,
    pilot: int,
    cores: int,
    memory: float,
    walltime: float,
    max_jobs: int,
    containment: str = "",
    node: str = "",
    gpus: int = 0,
    containers: bool = False,
    found: Mapping[str, Any] | None = None,
) -> MatchAnswer:
    """Give a pilot jobs that it can run now, if there are any. Store the facts that it ``found`` on its node.

    Raises ``PilotGone``, and ``PilotRefused`` if its queue requires contained payloads.
    """
    time, seed = runtime.clock(), runtime.seeds()
    record = runtime.matching.pilot(pilot, time, seed)
    if found:
        _keep(runtime, record, found, containers, time, seed)
    request = MatchRequest(
        pilot=record.id,
        queue=record.queue,
        kind=record.kind,
        owner=record.owner,
        cores=cores,
        memory=memory,
        walltime=walltime,
        max_jobs=max_jobs,
        containment=containment,
        node=node,
        gpus=gpus,
        containers=containers,
    )
    matched = runtime.matching.match(request, time, seed)
    matched, values = secrets.of_match(runtime, matched, time, seed)
    return _answer(runtime, matched, values, pilot, time)


def _keep(
    runtime: Runtime, pilot: Pilot, node_facts: Mapping[str, Any], containers: bool, time: float, seed: int
) -> None:
    """Store a pilot's description of its node, and whether the node lacks what its task queue needs (P12).

    A forwarder runs ``containers`` although its own node has no program for them.
    """
    clock = node_facts.get("clock")
    ahead = {"clock_ahead": round(_clock_ahead(clock, time), 1)} if clock else {}
    log = node_log(LogKey(kind="pilot", record=pilot.id), {**node_facts, **ahead})
    runtime.store.logs.put([(log, pilot.owner)], time)
    lacks = reports.note_lacking(
        pilot, len(node_facts["gpus"]), containers or bool(node_facts["containers"]), time, seed
    )
    if lacks:
        runtime.store.commit(lacks, f"pilot:{pilot.id}")


def _clock_ahead(clock: float, time: float) -> float:
    """Return how far a node's clock is ahead of the store's and of this machine's, in s: of the nearer one.

    After a step of one of these clocks, the other one shows that the node is right.
    """
    return min(clock - time, clock - machine_time(), key=abs)


def specification(runtime: Runtime, job: int, pilot: int) -> Specification | None:
    """Return the full description of a job's task, if the pilot holds the job."""
    world = runtime.world(told_by_pilots([Heartbeat(pilot=pilot)]))
    held_job = next((record for record in world.jobs if record.id == job), None)
    if held_job is None:
        return None
    (task,) = (task for task in world.tasks if task.id == held_job.task)
    timeouts, workflow = world.federation.timeouts, task.spec.workflow
    return Specification(
        instance=world.federation.name,
        spec=to_document(
            payload_of(task, held_job, task.changed(held_job.changes, held_job.kind).expected(held_job.kind))
        ),
        grace=heartbeat_of(timeouts, workflow) - lease_of(timeouts, workflow),
    )


def _answer(
    runtime: Runtime, matched: "Matched", values: secrets.Values, pilot: int, time: float
) -> MatchAnswer:
    federation = matched.federation
    works = _works(runtime, matched, values, time)
    # A pilot that gets jobs asks again before it is idle.
    idle = federation.loops.pilot_idle
    if not works:
        idle = runtime.idle_timeouts.seconds(federation, matched.queue, time, matched.unfit_jobs, pilot)
    # Each job's own values are in its work. Agents that do not know these use the shortest of all.
    shortest = shortest_heartbeat(federation.timeouts)
    return MatchAnswer(
        lease=shortest * LEASED,
        first_lease=min(shortest, federation.timeouts.sent) * LEASED,
        pilot_lease=federation.timeouts.heartbeat * LEASED,
        heartbeat=runtime.idle_timeouts.pace(federation, time),
        idle=idle,
        works=works,
        time=time,
    )


def _works(runtime: Runtime, matched: "Matched", values: secrets.Values, time: float) -> tuple[Work, ...]:
    if not matched.jobs or matched.queue is None:
        return ()
    federation, queue = matched.federation, matched.queue
    tasks = {task.id: task for task in matched.tasks}
    readings = Readings(matched, cache(lambda: Sources(federation, of_storages(runtime))))
    site_variables = runtime.site_variables.of(federation, queue, time)
    groups: dict[tuple[int, JobKind, str, str], list[JobOrder]] = defaultdict(list)
    specs: dict[tuple[int, JobKind, str, str], TaskSpec] = {}
    for job in matched.jobs:
        task = tasks[job.task]
        spec = task.changed(job.changes, job.kind).expected(job.kind)
        payload = payload_of(task, job, spec)
        # Jobs with their index in their texts get a work each; all others of a task share one.
        group = job.task, job.kind, job.changes, "" if payload is spec else str(job.id)
        specs[group] = payload
        inputs = tuple(readings.of(job, name) for name in job.inputs)
        scratch = scratch_path(federation.name, job.id, job.attempt)
        file = stdin_file(payload, job.inputs)
        groups[group].append(JobOrder(job.id, job.attempt, scratch, inputs, variables(task, job), file))
    return tuple(
        _work(
            federation,
            tasks[group[0]].changed(group[2], group[1]),
            group[1],
            specs[group],
            queue,
            orders,
            site_variables,
            values.get(group[0], ()),
        )
        for group, orders in sorted(groups.items())
    )


def _images(federation: Federation, spec: TaskSpec, queue: Queue) -> tuple[str, ...]:
    """Return the forms of a task's container at a queue: paths of its tags first, then its name."""
    name = spec.container_name
    if not name:
        return ()
    tagged = [source for tag in queue.tags if tag.container_name == name for source in tag.sources]
    return tuple(dict.fromkeys((*tagged, *federation.container_sources.get(name, ()), name)))


def _opened(federation: Federation, queue: Queue) -> dict[str, Any]:
    """Return the fields of a work that say how to open its queue's storage."""
    opened = source_of(next(storage for storage in federation.storages if storage.name == queue.storage))
    return {"storage_url": opened.url, "storage_options": opened.options, "asks": opened.asks}


def _work(
    federation: Federation,
    task: Task,
    kind: JobKind,
    spec: TaskSpec,
    queue: Queue,
    jobs: Sequence[JobOrder],
    variables: Mapping[str, str],
    values: Sequence[Secret],
) -> Work:
    request = task.spec.for_job(kind)
    element = queue.computing_element or ComputingElement()
    return Work(
        task=task.id,
        kind=kind,
        command=entered(spec),
        environment={**variables, **spec.environment},
        payload_files=bool(spec.payload_files),
        cores=max(1, spec.cores),
        memory=spec.memory,
        memory_limit=task.limit(kind, request.memory, queue.max_memory),
        walltime=task.limit(kind, request.walltime, queue.max_walltime),
        workdir=queue.max_workdir,
        outputs=spec.outputs,
        optional_outputs=spec.optional_outputs,
        strict_processes=spec.strict_processes,
        mounts=spec.mounts,
        stdin="" if stdin_file(spec, ()) else spec.stdin,
        **_opened(federation, queue),
        contained=element.containment != "off",
        readable=element.readable_paths,
        writable=element.writable_paths,
        gpus=spec.gpus_used,
        images=_images(federation, spec, queue),
        sources=sources(federation, jobs),
        secrets=tuple(values),
        jobs=tuple(jobs),
        lease=lease_of(federation.timeouts, spec.workflow),
        first_lease=first_lease_of(federation.timeouts, spec.workflow),
    )
