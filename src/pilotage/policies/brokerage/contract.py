"""Check the promises of a brokerage plugin. Plugin authors call ``violations`` in their tests."""

from collections.abc import Iterator, Set
from dataclasses import fields, replace
from typing import Any

from pilotage.model.documents.decision import Choice, Decision, Move
from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.model.records.work import NewTransfer, Task, TaskSpec
from pilotage.model.rules.plugins import BROKERAGE_FIELDS
from pilotage.model.rules.sources import Sources
from pilotage.policies.brokerage.engine.guarded_decisions import refused_jobs
from pilotage.policies.brokerage.engine.guards import is_guarded
from pilotage.policies.brokerage.plugin import Brokerage

_TARGETS = (JobState.ACTIVATED, JobState.ASSIGNED, JobState.PENDING)


def violations(plugin: Brokerage, world: World) -> list[str]:
    """Return the promises that a plugin breaks in this world; empty if it keeps them all.

    A plugin promises:

    - The same world gives the same bytes, in any order of records, and after saving and reading.
    - Every DEFINED job makes at most one move, and each move agrees with its choice.
    - Every queue is a candidate or refused, never both.
    - ASSIGNED jobs carry exactly the downloads that they need. ACTIVATED jobs need none, or may leave the
      queue and read remotely (E3).
    - No job goes to a queue that a guard refuses: status, VO, circuit breakers, and limits and requirements
      of sites.
    - It decides the same without the task fields that it does not declare in ``reads``.
    """
    decision = plugin.decide(world)
    faults = [*_unlike(plugin, world, decision), *_moves(decision, world), *_downloads(decision, world)]
    if not faults:
        faults += [] if is_guarded(plugin.decide) else _refused(decision, world)
        faults += _undeclared(plugin, world, decision)
    for number, choice in enumerate(decision.choices):
        moves = [move for move in decision.moves if move.choice == number]
        faults += [f"choice {number}: {fault}" for fault in _choice(choice, moves, world)]
    return faults


def _unlike(plugin: Brokerage, world: World, decision: Decision) -> Iterator[str]:
    expected = to_json(decision)
    saved = from_json(World, to_json(world))
    for circumstance, variant in (
        ("again", world),
        ("when saved and read", saved),
        ("in another order", _reversed(world)),
    ):
        if to_json(plugin.decide(variant)) != expected:
            yield f"the same world {circumstance} gives other bytes"
    if (decision.time, decision.seed) != (world.time, world.seed):
        yield "time and seed are not the world's"


def _reversed(world: World) -> World:
    """Return the same world with its records in reverse order."""
    federation = replace(world.federation, **_backwards(world.federation))
    return replace(world, federation=federation, **_backwards(world))


def _backwards(record: Any) -> dict[str, Any]:
    values = ((part.name, getattr(record, part.name)) for part in fields(record))
    return {name: value[::-1] for name, value in values if isinstance(value, tuple)}


def _moves(decision: Decision, world: World) -> Iterator[str]:
    defined = {job.id for job in world.jobs if job.state is JobState.DEFINED}
    queues = {queue.name for queue in world.federation.queues}
    moved_jobs: set[int] = set()
    for change in decision.changes:
        if not isinstance(change, Move) or change.kind != "job" or change.source is not JobState.DEFINED:
            yield f"{change!r} is no move of DEFINED jobs"
            continue
        if change.target not in _TARGETS:
            yield f"jobs are moved to {change.target}, not to one of {', '.join(_TARGETS)}"
        elif change.target is JobState.PENDING and change.changes.get("wake_at") is None:
            yield "jobs are PENDING without a wake_at"
        elif change.target is not JobState.PENDING and change.changes.get("queue") not in queues:
            yield f"jobs are sent to {change.changes.get('queue')!r}, which is no queue of the federation"
        if change.choice is None or not 0 <= change.choice < len(decision.choices):
            yield f"a move to {change.target} has no choice that explains it"
        twice = moved_jobs.intersection(change.ids) or {
            id_ for id_ in change.ids if change.ids.count(id_) > 1
        }
        if twice:
            yield f"job {min(twice)} is moved twice"
        if not defined.issuperset(change.ids):
            yield f"job {min(set(change.ids) - defined)} is moved and is not DEFINED"
        moved_jobs.update(change.ids)


def _downloads(decision: Decision, world: World) -> Iterator[str]:
    """Yield faults of placed jobs: they need exactly one download for each input missing at their queue's
    storage."""
    sources, jobs = Sources(world.federation), {job.id: job for job in world.jobs}
    storages = {queue.name: queue.storage for queue in world.federation.queues}
    holders: dict[str, set[str]] = {}
    for replica in world.replicas:
        holders.setdefault(replica.file, set()).add(replica.storage)
    for move in decision.moves:
        storage = storages.get(str(move.changes.get("queue")))
        if storage is None or move.target not in (JobState.ASSIGNED, JobState.ACTIVATED):
            continue
        for job in (jobs[id_] for id_ in move.ids if id_ in jobs):
            missing = {name for name in job.inputs if storage not in holders.get(name, ())}
            downloads = [record for record in move.creates.get(job.id, ()) if isinstance(record, NewTransfer)]
            if move.target is JobState.ACTIVATED and move.binding != "early":
                missing = {
                    name for name in missing if not sources.readable_from(holders.get(name, ()), storage)
                }
            carried = [item.file for item in downloads if item.destination == storage]
            # Compare sorted lists, not sets, because a duplicate download is a fault.
            if sorted(carried) != sorted(missing) or len(downloads) != len(carried):
                yield f"job {job.id} needs {sorted(missing)} at {storage}, and carries downloads of {carried}"
            for item in downloads:
                if item.source not in sources.ranked(holders.get(item.file, ()), storage):
                    yield f"{item.file} cannot be brought from {item.source} to {storage}"


def _refused(decision: Decision, world: World) -> Iterator[str]:
    """Yield placements that the server would refuse after the plugin's decision."""
    for id_, refusals in sorted(refused_jobs(decision, world).items()):
        for refusal in refusals:
            reason = f"{refusal.rule} {refusal.name} needs {refusal.need}, has {refusal.have[0]}"
            yield f"job {id_} is sent to {refusal.queues[0]}, where the server stops it: {reason}"


def _undeclared(plugin: Brokerage, world: World, decision: Decision) -> Iterator[str]:
    """Yield a fault if the decision depends on task fields that the plugin does not declare in ``reads``."""
    reads = getattr(plugin, "reads", None)
    if reads is None:
        return
    bare = [_without_fields(task, BROKERAGE_FIELDS - reads) for task in world.tasks]
    if to_json(plugin.decide(replace(world, tasks=tuple(bare)))) != to_json(decision):
        yield "it reads task fields that its reads do not name"


def _without_fields(task: Task, names: Set[str]) -> Task:
    plain: dict[str, Any] = {part.name: part.default for part in fields(TaskSpec) if part.name in names}
    return replace(task, spec=replace(task.spec, **plain))


def _choice(choice: Choice, moves: list[Move], world: World) -> Iterator[str]:
    yield from _queues(choice, {queue.name for queue in world.federation.queues})
    yield from _lengths(choice)
    if choice.jobs != tuple(id_ for move in moves for id_ in move.ids):
        yield "the jobs are not those of its moves"
    sent: dict[str, int] = {}
    for move in moves:
        if move.target is not JobState.PENDING:
            name = str(move.changes.get("queue"))
            sent[name] = sent.get(name, 0) + len(move.ids)
        if strange := set(move.takers or ()) - set(choice.candidates.queues):
            yield f"{min(strange)} may take jobs, and is no candidate"
    if dict(choice.placed) != sent or not sent.keys() <= set(choice.candidates.queues):
        yield f"placed is {dict(choice.placed)}, but the moves place {sent}"


def _queues(choice: Choice, queues: set[str]) -> Iterator[str]:
    candidates = set(choice.candidates.queues)
    refused = {name for refusal in choice.refusals for name in refusal.queues}
    if left_out := queues - refused - candidates:
        yield f"{min(left_out)} is left out"
    if both := refused & candidates:
        yield f"{min(both)} is a candidate and refused"
    if strange := (refused | candidates) - queues:
        yield f"{min(strange)} is no queue of the federation"
    if choice.considered != len(queues):
        yield f"considered is {choice.considered}, but there are {len(queues)} queues"


def _lengths(choice: Choice) -> Iterator[str]:
    candidates = choice.candidates
    keys = [candidates.ordering.keys] if candidates.ordering else []
    for numbers in (candidates.weights, *candidates.factors.values(), *keys):
        if len(numbers) != len(candidates.queues):
            yield f"{len(candidates.queues)} candidates have {len(numbers)} weights, factors or keys"
    for refusal in choice.refusals:
        needs = len(refusal.need) if isinstance(refusal.need, tuple) else len(refusal.queues)
        if not len(refusal.queues) == len(refusal.have) == needs or not refusal.queues:
            yield f"{refusal.rule} {refusal.name} does not say what each queue that it refuses has and needs"
