"""Record scenarios from a server's past jobs, to repeat yesterday's work under other policies."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from statistics import median, pstdev
from typing import Any

from pilotage.model.documents.serialization import to_document
from pilotage.model.records.federation import UNKNOWN_CORE_POWER, Federation
from pilotage.model.records.work import InputFile, TaskOutputs, TaskSpec
from pilotage.model.values.types import DESCRIBED
from pilotage.simulation.recorded_chains import RecordedChains
from pilotage.simulation.scenario import SHORTEST_INTERVAL, TICK, Arrival, Scenario, SiteBehaviour

SHORTEST, WIDEST = 1.0, 5.0
"""The least work in HS23 s, and the widest spread, of a scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """A successful job."""

    __pydantic_config__ = DESCRIBED

    queue: str
    """Its queue."""
    wall_seconds: float
    """Duration of its payload in s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTask:
    """A submitted task: its time (s since 1970 UTC), its owner, and its successful jobs."""

    spec: TaskSpec
    owner: str
    vo: str
    created: float
    jobs: Sequence[EndedJob]
    id: int = 0
    """Its number; 0: it comes after no task, and none after it."""


def recorded(
    name: str,
    federation: str,
    declared: Federation,
    tasks: Iterable[RecordedTask],
    begin: float,
    waits: Mapping[str, Sequence[float]],
) -> Scenario:
    """Return the scenario of tasks submitted from ``begin`` on that have successful jobs.

    It begins with the first task, and keeps chains of recorded tasks. After the last arrival it lasts as long
    as tasks usually took.
    ``federation`` is the name of its federation file. It leaves out commands, environments, payload files,
    standard inputs and receivers of notifications: they may hold secrets, and no simulation uses them. The
    places where jobs ran give their work. The waits of pilots, in s by queue, give the batch systems' delays.
    """
    powers = {queue.name: queue.core_power or UNKNOWN_CORE_POWER for queue in declared.queues}
    storages = {storage.name for storage in declared.storages}
    recorded_tasks = [task for task in tasks if task.jobs and task.created >= begin]
    first = min((task.created for task in recorded_tasks), default=begin)
    chains = RecordedChains.of(recorded_tasks, declared.name)
    times = {task.id: task.created for task in recorded_tasks}
    recorded_tasks.sort(key=lambda task: (task.created, chains.depth(task.id, times)))
    specs = (replace(task, spec=chains.spec(task)) for task in recorded_tasks)
    arrivals = [_arrival(task, powers, storages, task.created - first) for task in specs]
    scenario = Scenario(
        name=_name(name),
        federation=federation,
        tasks=tuple(arrivals),
        sites=_sites(declared, waits),
        tick=_tick([job.wall_seconds for task in recorded_tasks for job in task.jobs]),
    )
    return replace(scenario, limit=scenario.limit + ceil(arrivals[-1].at)) if arrivals else scenario


def _sites(declared: Federation, waits: Mapping[str, Sequence[float]]) -> dict[str, SiteBehaviour]:
    """Return the batch system of each site where pilots started, with the waits of these pilots."""
    by_site: defaultdict[str, list[float]] = defaultdict(list)
    for queue in declared.queues:
        by_site[queue.site] += waits.get(queue.name, ())
    return {
        site: SiteBehaviour(
            wait=median(site_waits), wait_spread=_spread([max(SHORTEST, wait) for wait in site_waits])
        )
        for site, site_waits in sorted(by_site.items())
        if site_waits
    }


def _tick(walls: Sequence[float]) -> float:
    """Return a tick in s that is short against the jobs: a tenth of a run, and at most a scenario's
    default."""
    return min(TICK, max(SHORTEST_INTERVAL, round(median(walls) / 10))) if walls else TICK


def _spread(values: Sequence[float]) -> float:
    return min(WIDEST, pstdev(map(log, values)))


def _name(text: str) -> str:
    """Return a legal name for a scenario, as close to a text as possible."""
    return re.sub(r"[^A-Za-z0-9_.:@+-]+", "-", text).lstrip("_.:@+-")[:200] or "recorded"


def _arrival(task: RecordedTask, powers: dict[str, float], storages: set[str], at: float) -> Arrival:
    works = [
        max(
            SHORTEST,
            job.wall_seconds * powers.get(job.queue, UNKNOWN_CORE_POWER) * max(1, task.spec.cores),
        )
        for job in task.jobs
    ]
    return Arrival(
        task=_without_secrets(task.spec, storages),
        at=at,
        user=task.owner,
        vo=task.vo,
        work=median(works),
        job_spread=_spread(works),
        output_size=max(1.0, task.spec.out_disk * task.spec.events_per_job),
    )


def _without_secrets(spec: TaskSpec, storages: set[str]) -> TaskSpec:
    """Return the task without anything that only a payload would use, and only with inputs that exist
    somewhere."""
    inputs = tuple(
        replace(item, replicas=tuple(name for name in item.replicas if name in storages))
        for item in spec.inputs
        if isinstance(item, InputFile) and storages.intersection(item.replicas)
    )
    outputs = tuple(item for item in spec.inputs if isinstance(item, TaskOutputs))
    return replace(
        spec,
        inputs=(*inputs, *outputs),
        jobs=spec.jobs if inputs or outputs or not spec.inputs else spec.planned_jobs,
        command=("run",),
        environment={},
        payload_files={},
        secrets=(),
        stdin="",
        notify=(),
        merge=spec.merge and replace(spec.merge, command=("merge",)),
    )


def document_of(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario as a document without fields that have their default."""
    tasks = [
        changed_fields(to_document(arrival), _ARRIVAL)
        | {"task": changed_fields(to_document(arrival.task), _SPEC)}
        for arrival in scenario.tasks
    ]
    document = {"name": scenario.name, "federation": scenario.federation, "limit": scenario.limit}
    document |= {"tick": scenario.tick}
    sites = {
        name: {"wait": arrival.wait, "wait_spread": arrival.wait_spread}
        for name, arrival in scenario.sites.items()
    }
    return {**document, **({"sites": sites} if sites else {}), "tasks": tasks}


_SPEC = to_document(TaskSpec(name="-"))
_ARRIVAL = to_document(Arrival(task=TaskSpec(name="-")))


def changed_fields(document: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a document that differ from their default."""
    return {name: value for name, value in document.items() if value != defaults.get(name)}
