"""Warn of certain waits, in the words of the deciding checks: for a task, or for a federation."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pilotage.explain import queues, sure_waits
from pilotage.federation.brokerage_fields import undeclared_fields
from pilotage.flow import planning
from pilotage.flow.calls.places import conditions
from pilotage.flow.calls.work import preview, secrets, task_wait
from pilotage.flow.loops.time_limit import TimeLimit
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Choice, Refusal
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import AT_A_PILOT, ENDED, JobState, TaskState
from pilotage.model.records.unable_ways import UnableWays
from pilotage.model.records.unified_queues import conditioned
from pilotage.model.records.work import Job, Requirements, Task, TaskSpec
from pilotage.model.rules.sources import outputs_at
from pilotage.model.values.identity import Identity
from pilotage.model.values.phrases import moment
from pilotage.model.values.step_names import BROKER
from pilotage.store import TaskDetails
from pilotage.store.worlds.broker_facts import OF_PLACES

log = logging.getLogger(__name__)

MOST_TASKS = 20
"""Tasks of a submission that are checked: those that differ in more than their names."""

MOST_SUBMITTED = 100
"""Tasks of a submission that are searched for these."""

MOST_QUEUES = 100
"""Queues of a task that are checked for pilots that cannot come."""


def of_submitted(runtime: Runtime, tasks: Sequence[int]) -> list[str]:
    """Return such warnings, each once, for just submitted tasks: for the first few that differ."""
    found: list[TaskDetails] = []
    for task in filter(None, map(runtime.store.queries.task, tasks[:MOST_SUBMITTED])):
        if len(found) < MOST_TASKS and all(_bare(task) != _bare(one) for one in found):
            found.append(task)
    told: dict[str, str] = {}
    for task, lines in zip(found, _of_tasks(runtime, found), strict=True):
        for text in lines:
            told.setdefault(text, text if len(tasks) == 1 else f"task {task.id} {task.name}: {text}")
    return list(told.values())


def _bare(task: TaskDetails) -> TaskSpec:
    return replace(task.spec, name="t")


def of_task(runtime: Runtime, task: TaskDetails, known: Sequence[str] = ()) -> list[str]:
    """Return what will keep a task's jobs waiting until somebody acts; nothing for a task that has ended.

    That is: refusals by the brokerage, pilots that cannot come, and files that this server cannot move. For
    jobs and files that already wait, ``known`` says why.
    """
    return [] if task.state in ENDED["task"] else _of_tasks(runtime, [task], known)[0]


def _of_tasks(runtime: Runtime, tasks: Sequence[TaskDetails], known: Sequence[str] = ()) -> list[list[str]]:
    if not tasks:
        return []
    world = runtime.elements.reported(runtime.world(*OF_PLACES))
    asked = [_task(one) for one in tasks]
    try:
        choices = decided(world, asked, runtime.time_limit)
    except Exception:
        # The step that fails in the same way sets it aside and says so. A warning must not fail the
        # submission.
        log.exception("what tasks %s will wait for cannot be foreseen", [one.id for one in tasks])
        return [[] for _ in tasks]
    return [
        _warnings(runtime, world.federation, task, one, choices[task.id], known)
        for task, one in zip(tasks, asked, strict=True)
    ]


def _warnings(
    runtime: Runtime,
    federation: Federation,
    task: TaskDetails,
    asked: Task,
    choices: Sequence[Choice],
    known: Sequence[str],
) -> list[str]:
    placed = sorted({queue for choice in choices for queue in choice.placed})
    # These choices know no changes of jobs: if there are any, only the brokerage's own decisions count.
    decided_on = task_wait.last_refusals(runtime, task) if task.changes else choices
    return [
        *undeclared_fields(asked.spec, federation, asked.owner),
        *sure_waits.of_choices(decided_on),
        *(_nothing_starts(runtime, task.spec) if not known and not _runs(task) else ()),
        *(() if known else _unable(runtime, federation, task.spec, placed)),
        *(
            ()
            if known or not asked.spec.secrets
            else secrets.waits_for_key(runtime, asked.owner.vo, asked.owner.name)
        ),
    ]


def _task(task: TaskDetails) -> Task:
    return Task(
        id=task.id,
        spec=task.spec,
        owner=Identity(name=task.owner, vo=task.vo),
        state=TaskState.REGISTERED,
        created=task.created,
        since=task.since,
        measured=task.measured,
    )


def _runs(task: TaskDetails) -> bool:
    return any(task.jobs.get(state) for state in AT_A_PILOT)


def decided(
    world: World, tasks: Iterable[Task], limit: TimeLimit | None = None
) -> Mapping[int, Sequence[Choice]]:
    """Return the brokerage's choices for a few jobs of each task, one per kind (pure)."""
    asked = tuple(_with_few_jobs(task) for task in tasks)
    split = preview.split_up(replace(world, tasks=asked, jobs=(), files=(), replicas=()))
    merging = (task for task in asked if task.spec.merge)
    jobs = [*split.jobs]
    jobs += [_merge_job(number, task, world.time) for number, task in enumerate(merging, len(jobs) + 1)]
    found: defaultdict[int, list[Choice]] = defaultdict(list)
    for choice in planning.plan(BROKER, replace(split, jobs=tuple(jobs)), limit).choices:
        found[choice.task].append(choice)
    return found


def _with_few_jobs(task: Task) -> Task:
    scouts = 0 if task.measured else min(1, task.spec.scouts)
    parts = 2 * scouts + 1
    inputs = task.spec.inputs[: parts * task.spec.files_per_job]
    few = replace(task.spec, scouts=scouts, jobs=min(task.spec.jobs, parts), inputs=inputs)
    return replace(task, spec=few)


def _merge_job(number: int, task: Task, time: float) -> Job:
    return Job(
        id=number,
        task=task.id,
        kind="merge",
        share=task.spec.share,
        priority=task.spec.priority,
        requirements=Requirements.of(task.spec.for_job("merge"), task.owner).text,
        state=JobState.DEFINED,
        attempt=1,
        since=time,
        created=time,
    )


def of_federation(federation: Federation) -> Mapping[str, tuple[Refusal, ...]]:
    """Return the refusals for jobs without special needs, by rule (pure).

    Those of B18 come from missing declarations of space. Those of B20 refuse jobs without a walltime, and so
    scouts and merge jobs.
    """
    world = World(time=0.0, seed=0, federation=conditioned(federation))
    owner = Identity(name="somebody")
    spec = TaskSpec(name="any", command=("true",), scouts=0, brokerage="production")
    task = Task(id=1, spec=spec, owner=owner, state=TaskState.REGISTERED, created=0.0, since=0.0)
    found: dict[str, tuple[Refusal, ...]] = {}
    for choice in decided(world, [task])[1]:
        for refusal in choice.refusals:
            found[refusal.rule] = (*found.get(refusal.rule, ()), refusal)
    return found


def _nothing_starts(runtime: Runtime, spec: TaskSpec) -> list[str]:
    """Return why nothing can start at any queue for a task; nothing if it can start somewhere."""
    begin = runtime.store.matches_begin()
    if runtime.clock() < begin:
        return [f"nothing starts before {moment(begin)}: the store was restored, and older payloads may run"]
    names = {*spec.queues}
    declared = runtime.store.federation().queues
    wanted = [one.name for one in declared if not names or {one.name, one.parent} & names]
    if not wanted or len(wanted) > MOST_QUEUES:
        return []
    told = [queues.trouble(seen) for seen in conditions.of_queues(runtime, wanted)]
    return [f"nothing starts: {trouble}" for trouble in told] if all(told) else []


def _unable(runtime: Runtime, federation: Federation, spec: TaskSpec, placed: Iterable[str]) -> Iterator[str]:
    """Yield which files of a task this server cannot move, from these queues or to them."""
    ways = UnableWays.of(federation.storages, runtime.deliveries.unable(federation))
    homes = {one.storage for one in federation.queues if one.name in set(placed)}
    told = dict.fromkeys(
        f"this server cannot bring its {what} from {source} to {destination}: "
        f"{why}; they wait for one that can"
        for what, source, destination in _moves(federation, spec, homes)
        if (why := ways.reason(source, destination))
    )
    yield from told


def _moves(federation: Federation, spec: TaskSpec, homes: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    for home in sorted(homes):
        ends = [one.name for one in outputs_at(federation, spec.nucleus)] if spec.nucleus else [home]
        if spec.outputs and home not in ends:
            yield from (("outputs", home, end) for end in ends)
        elif spec.outputs:
            yield "outputs", home, home
        for file in spec.inputs:
            held = getattr(file, "replicas", ())
            if held and home not in held:
                yield "inputs", held[0], home
