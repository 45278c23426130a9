"""Decide where tasks would run before their submission, without changing anything."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from operator import itemgetter

from pilotage.flow import planning
from pilotage.flow.calls.data.inputs import Fault
from pilotage.flow.calls.work import submit
from pilotage.flow.loops.time_limit import TimeLimit
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Choice
from pilotage.model.documents.moves import PATIENCE
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import File, InputFile, Job, JobPlan, NewJob, Replica, Task, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.model.values.step_names import BROKER
from pilotage.policies.tasks import splitting
from pilotage.store.worlds.broker_facts import OF_PLACES

MOST_PLANNED = 50_000
"""Most jobs decided together, so that many large tasks take no longer than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The brokerage's decision for a task. ``jobs`` counts the jobs considered.

    Scouts go first, and their measurements may change the decision about the others. ``index`` counts the
    tasks from 0. The choices number them from 1.
    """

    index: int
    name: str
    jobs: int
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Decisions from the world at a time (s since 1970 UTC), with a random seed."""

    time: float
    seed: int
    tasks: tuple[Planned, ...]
    undecided: tuple[tuple[int, list[Fault]], ...] = ()
    """Undecided tasks, by index, and why."""


def run(
    runtime: Runtime, specs: Iterable[tuple[int, TaskSpec]], owner: Identity
) -> tuple[Preview, list[tuple[int, list[Fault]]]]:
    """Decide about tasks now, by index. Return why the others are refused or undecided."""
    submitted, accepted = submit.examined(runtime, specs, owner)
    # Without jobs: other people's jobs are private here, and have their turn before or after.
    world = runtime.elements.reported(runtime.world(*OF_PLACES))
    specs_ = [(index, resolved.spec) for index, resolved in accepted]
    decisions = preview(world, specs_, owner, runtime.time_limit)
    return decisions, sorted([*submitted.refused, *decisions.undecided], key=itemgetter(0))


def preview(
    world: World,
    specs: Sequence[tuple[int, TaskSpec]],
    owner: Identity | None,
    limit: TimeLimit | None = None,
) -> Preview:
    """Decide about tasks, by index, as if they were submitted together (pure).

    Of the world's work, only the load of queues and links counts. Inputs are at the storages that the tasks
    name. Without an ``owner`` the tasks belong to a made-up person in their shares' VOs. Tasks that need too
    much counted work, or more time of their brokerage than the ``limit``, are returned separately with the
    reason.
    """
    tasks = tuple(
        Task(
            id=index + 1,
            spec=spec,
            owner=owner or _somebody(spec, world.federation),
            state=TaskState.REGISTERED,
            created=world.time,
            since=world.time,
        )
        for index, spec in specs
    )
    split = split_up(replace(world, tasks=tasks, jobs=(), files=(), replicas=()))
    decision = planning.plan(BROKER, split, limit)
    aside = planning.set_aside(decision)
    jobs = Counter(job.task for job in split.jobs)
    choices: defaultdict[int, list[Choice]] = defaultdict(list)
    for choice in decision.choices:
        choices[choice.task].append(choice)
    planned = tuple(
        Planned(index=task.id - 1, name=task.spec.name, jobs=jobs[task.id], choices=tuple(choices[task.id]))
        for task in tasks
        if str(task.id) not in aside
    )
    undecided = tuple((int(id_) - 1, [("", reason)]) for id_, reason in aside.items())
    return Preview(time=world.time, seed=world.seed, tasks=planned, undecided=undecided)


def split_up(world: World) -> World:
    """Return the world with the jobs of its REGISTERED tasks, scouts and others, as many of each as a pass
    takes.

    With many tasks there are fewer of each, ``MOST_PLANNED`` together, but at least one.
    """
    tasks = [task for task in world.tasks if task.state is TaskState.REGISTERED]
    if not tasks:
        return world
    limit = max(1, min(world.federation.loops.batch, MOST_PLANNED // len(tasks)))
    registered = {task.id: _of_at_most(limit, task) for task in tasks}
    new_jobs = [job for task in registered.values() for job in splitting.every_job(task)[:limit]]
    jobs = tuple(_defined(number, job, world.time) for number, job in enumerate(new_jobs, 1))
    inputs = [
        file for task in registered.values() for file in task.spec.inputs if isinstance(file, InputFile)
    ]
    return replace(
        world,
        jobs=(*world.jobs, *jobs),
        files=(
            *world.files,
            *(File(name=file.identifier, size=file.size, checksum=file.checksum) for file in inputs),
        ),
        replicas=(*world.replicas, *_replicas(inputs)),
    )


def _of_at_most(limit: int, task: Task) -> Task:
    needed = max(limit, 2 * task.spec.scouts + 1)
    return replace(task, spec=replace(task.spec, jobs=min(task.spec.jobs, needed)))


def _defined(number: int, job: NewJob, time: float) -> Job:
    """Return a job that has waited for room for long enough to be pending without it."""
    plan = {field.name: getattr(job, field.name) for field in fields(JobPlan)}
    since = time - PATIENCE
    return Job(**plan, id=number, state=JobState.DEFINED, attempt=1, since=since, created=since)


def _replicas(inputs: Iterable[InputFile]) -> tuple[Replica, ...]:
    lying = {(file.identifier, storage) for file in inputs for storage in file.replicas}
    return tuple(Replica(file=name, storage=storage) for name, storage in sorted(lying))


def _somebody(spec: TaskSpec, federation: Federation) -> Identity:
    vos = {share.name: share.vo for share in federation.shares}
    return Identity(name="somebody", vo=vos.get(spec.share, ""))
