"""Refuse decisions of brokerage plugins that cannot be carried out."""

from collections.abc import Collection, Iterator
from itertools import chain

from pilotage.model.documents.decision import Choice, Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.model.records.work import NewTransfer
from pilotage.policies.brokerage.plugin import PluginError

TARGETS = (JobState.ACTIVATED, JobState.ASSIGNED, JobState.PENDING)
"""States to which a brokerage moves jobs."""

_COLUMNS = frozenset({"queue", "wake_at", "error"})
"""Columns that its moves set."""


def check(name: str, decision: object, world: World) -> Decision:
    """Check and return the decision of the plugin ``name``.

    Raises ``PluginError`` if it is not a decision, or cannot be carried out.
    """
    try:
        fault = next(_faults(decision, world), "")
    except (TypeError, AttributeError, ValueError, LookupError) as error:
        fault = f"it cannot be read: {type(error).__name__}: {error}"
    if fault or not isinstance(decision, Decision):
        raise PluginError(f"brokerage {name!r} returned no sound decision: {fault}")
    return decision


def _faults(decision: object, world: World) -> Iterator[str]:
    if not isinstance(decision, Decision):
        yield f"it is a {type(decision).__name__}, not a Decision"
        return
    if (decision.time, decision.seed) != (world.time, world.seed):
        yield "its time and seed are not the world's"
    defined = {job.id for job in world.jobs if job.state is JobState.DEFINED}
    queues = {queue.name for queue in world.federation.queues}
    choices = decision.choices
    for change in decision.changes:
        if not isinstance(change, Move):
            yield f"a {type(change).__name__} is no Move"
        else:
            yield from _move_faults(change, defined, queues, len(choices))
    ids = list(chain.from_iterable(move.ids for move in decision.moves))
    if len(set(ids)) != len(ids):
        yield "a job is moved twice"
    tasks = {task.id for task in world.tasks}
    # Skip choices of our own engine: they are made when read, and are valid.
    for choice in choices if isinstance(choices, (tuple, list)) else ():
        yield from _choice_faults(choice, tasks)


def _move_faults(
    move: Move, defined: Collection[int], queues: Collection[str], choices: int
) -> Iterator[str]:
    if move.kind != "job" or move.source is not JobState.DEFINED or move.target not in TARGETS:
        yield f"a {move.kind} is moved from {move.source} to {move.target}, not a defined job to {TARGETS}"
    if not all(type(id_) is int and id_ in defined for id_ in move.ids):
        yield "it moves jobs that are not DEFINED jobs of its world"
    if move.attempts is not None and len(move.attempts) != len(move.ids):
        yield f"{len(move.ids)} jobs have {len(move.attempts)} attempts"
    yield from _column_faults(move, queues)
    if move.choice is None or not 0 <= move.choice < choices:
        yield f"a move to {move.target} has choice {move.choice!r} of {choices}"
    for record in chain.from_iterable(move.creates.values()):
        if not isinstance(record, NewTransfer):
            yield f"a move makes a {type(record).__name__}"


def _column_faults(move: Move, queues: Collection[str]) -> Iterator[str]:
    if strange := {*move.changes, *chain.from_iterable(move.own_changes.values())} - _COLUMNS:
        yield f"it sets {min(strange)!r} of jobs"
    wake_at, queue = move.changes.get("wake_at"), move.changes.get("queue")
    if move.target is JobState.PENDING:
        if not _is_time(wake_at):
            yield f"jobs are PENDING with wake_at {wake_at!r}"
    elif queue not in queues:
        yield f"jobs are sent to {queue!r}, which is no queue of the federation"


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= float(str(value)) < 1e12


def _choice_faults(choice: object, tasks: Collection[int]) -> Iterator[str]:
    if not isinstance(choice, Choice):
        yield f"a choice is a {type(choice).__name__}"
    elif choice.task not in tasks:
        yield f"a choice names task {choice.task}, which its world does not have"
