"""Warn of certain waits, in the words of the deciding checks: for a task, or for a federation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from pilotage.explain import queues, sure_waits
from pilotage.explain.remarks import sentence
from pilotage.federation.brokerage_fields import undeclared_fields
from pilotage.flow.calls.places import conditions
from pilotage.flow.calls.work import preview, secrets
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Refusal
from pilotage.model.documents.remarks import Mend, Remark
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import AT_A_PILOT, ENDED, JobState
from pilotage.model.records.unable_ways import UnableWays
from pilotage.model.records.unified_queues import conditioned
from pilotage.model.records.work import TaskSpec
from pilotage.model.rules.sources import outputs_at
from pilotage.model.values.identity import Identity
from pilotage.model.values.phrases import moment
from pilotage.store import TaskDetails

MOST_TASKS = 20
"""Tasks of a submission that are looked at."""

MOST_QUEUES = 100
"""Queues of a task that are checked for pilots that cannot come."""


def of_submitted(runtime: Runtime, tasks: Sequence[int]) -> list[str]:
    """Return the sure waits of just submitted tasks before the brokerage decides, each once, as text."""
    lines: dict[str, str] = {}
    for task in filter(None, map(runtime.store.queries.task, tasks[:MOST_TASKS])):
        for text in map(sentence, _before_decisions(runtime, task, starts=False, is_known=False)):
            lines.setdefault(text, text if len(tasks) == 1 else f"task {task.id} {task.name}: {text}")
    return list(lines.values())


def of_task(runtime: Runtime, task: TaskDetails, remarks: Sequence[Remark] = ()) -> list[Remark]:
    """Return what will keep a task's jobs waiting until a person acts; nothing for a task that has ended.

    That is: the brokerage's newest refusals, pilots that cannot come, and files that this server cannot move.
    ``remarks`` explain the jobs and files that already wait.
    """
    if task.state in ENDED["task"]:
        return []
    choices = runtime.store.queries.task_choices(task.id, 1) if task.jobs.get(JobState.PENDING) else ()
    rule = next((remark.rule for remark in remarks if remark.rule), "")
    is_known = any(remark.kind == "fault" and not remark.rule for remark in remarks)
    starts = is_known or any(task.jobs.get(state) for state in AT_A_PILOT)
    return [
        *_before_decisions(runtime, task, starts=starts, is_known=is_known),
        *sure_waits.of_choices(f"task:{task.id}", choices, rule),
        *(() if is_known else _warnings(task, "operator", _unable(runtime, task))),
    ]


def _before_decisions(
    runtime: Runtime, task: TaskDetails, *, starts: bool, is_known: bool
) -> Iterator[Remark]:
    owner = Identity(name=task.owner, vo=task.vo)
    yield from _warnings(task, "user", undeclared_fields(task.spec, runtime.store.federation(), owner))
    if not starts:
        yield from _nothing_starts(runtime, f"task:{task.id}", task.spec)
    if task.spec.secrets and not is_known:
        yield from _warnings(task, "operator", secrets.waits_for_key(runtime, task.vo, task.owner))


def _warnings(task: TaskDetails, mend: Mend, texts: Iterable[str]) -> Iterator[Remark]:
    return (Remark(kind="warning", subject=f"task:{task.id}", text=text, mend=mend) for text in texts)


def of_federation(federation: Federation) -> Mapping[str, tuple[Refusal, ...]]:
    """Return the refusals for jobs without special needs, by rule (pure).

    B18 refuses if declarations of space are missing. B20 refuses jobs without a walltime, and so scouts and
    merge jobs.
    """
    spec = TaskSpec(name="any", command=("true",), scouts=0, brokerage="production")
    world = World(time=0.0, seed=0, federation=conditioned(federation))
    refusals: dict[str, tuple[Refusal, ...]] = {}
    for planned in preview.preview(world, [(0, spec)], Identity(name="somebody")).tasks:
        for refusal in chain.from_iterable(choice.refusals for choice in planned.choices):
            refusals[refusal.rule] = (*refusals.get(refusal.rule, ()), refusal)
    return refusals


def _nothing_starts(runtime: Runtime, subject: str, spec: TaskSpec) -> Iterator[Remark]:
    """Yield why nothing can start at any queue for a task; nothing if it can start somewhere."""
    begin = runtime.store.matches_begin()
    if runtime.clock() < begin:
        text = f"nothing starts before {moment(begin)}: the store was restored, and older payloads may run"
        yield Remark(kind="warning", subject=subject, text=text, mend="wait", until=begin)
        return
    names = {*spec.queues}
    declared = runtime.store.federation().queues
    queue_names = [queue.name for queue in declared if not names or {queue.name, queue.parent} & names]
    if not queue_names or len(queue_names) > MOST_QUEUES:
        return
    faults = [*map(queues.fault, conditions.of_queues(runtime, queue_names))]
    if all(faults):
        yield from (replace(fault, kind="warning") for fault in faults if fault)


def _unable(runtime: Runtime, task: TaskDetails) -> Iterator[str]:
    """Yield which files of a task this server cannot move, from the queues of its last choice or to them."""
    federation, spec = runtime.store.federation(), task.spec
    unable_ways = UnableWays.of(federation.storages, runtime.deliveries.unable(federation))
    placed = {queue for choice in runtime.store.queries.task_choices(task.id, 1) for queue in choice.placed}
    homes = {queue.storage for queue in federation.queues if queue.name in placed}
    yield from dict.fromkeys(
        f"this server cannot bring its {files} from {source} to {destination}: "
        f"{obstacle}; they wait for one that can"
        for files, source, destination in _moves(federation, spec, homes)
        if (obstacle := unable_ways.reason(source, destination))
    )


def _moves(federation: Federation, spec: TaskSpec, homes: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    for home in sorted(homes):
        ends = [storage.name for storage in outputs_at(federation, spec.nucleus)] if spec.nucleus else [home]
        if spec.outputs and home not in ends:
            yield from (("outputs", home, end) for end in ends)
        elif spec.outputs:
            yield "outputs", home, home
        for file in spec.inputs:
            replicas = getattr(file, "replicas", ())
            if replicas and home not in replicas:
                yield "inputs", replicas[0], home
