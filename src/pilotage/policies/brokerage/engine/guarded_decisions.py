"""The guards of every brokerage, for plugins that do not ask them themselves (B4, F1, F2, F4, M8)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeVar

from pilotage.model.documents.decision import Candidates, Change, Choice, Decision, Label, Move, Refusal
from pilotage.model.documents.decision_parts import piece
from pilotage.model.documents.reasons import unpacked_refusal
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.policies.brokerage.engine.guards import GUARDS
from pilotage.policies.brokerage.engine.job_groups import groups_of
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.engine.verdicts import FactsDraft, examine

CAUSE = "the queue that its brokerage chose is refused"
"""Cause of the moves of jobs that a guard stopped."""

Refused = Mapping[int, Sequence[Refusal]]
"""What refuses jobs the queue that they were placed at, by job. Each refusal is of this queue alone."""


def refused_jobs(decision: Decision, world: World) -> Refused:
    """Return the placements of DEFINED jobs that a guard refuses."""
    placed = {id_: str(move.changes.get("queue")) for move in _placements(decision) for id_ in move.ids}
    if not placed:
        return {}
    queues = QueueColumns.of(world.federation).during(world)
    groups = groups_of(replace(world, jobs=tuple(job for job in world.jobs if job.id in placed)), queues)
    facts = FactsDraft(queues)
    examined = examine(GUARDS, TaskColumns.of(groups, queues), queues, facts)
    shared, refused = facts.facts(), defaultdict[int, list[Refusal]](list)
    for row, group in enumerate(groups):
        refusals = [unpacked_refusal(one, shared) for one in examined.refusals(row)]
        for id_ in group.jobs:
            refused[id_] += [_at(placed[id_], one) for one in refusals if placed[id_] in one.queues]
    return {id_: found for id_, found in refused.items() if found}


def _placements(decision: Decision) -> Iterator[Move]:
    return (move for move in decision.moves if move.target is not JobState.PENDING)


def _at(queue: str, refusal: Refusal) -> Refusal:
    """Return a refusal for one of its queues."""
    place = refusal.queues.index(queue)
    need = refusal.need[place] if isinstance(refusal.need, tuple) else refusal.need
    return replace(refusal, queues=(queue,), have=(refusal.have[place],), need=need)


def guarded_decision(decision: Decision, world: World) -> Decision:
    """Return the same decision, where jobs are PENDING whose queue a guard refuses, with the reason (B37)."""
    refused = refused_jobs(decision, world)
    if not refused:
        return decision
    choices = list(decision.choices)
    numbers: dict[int, int] = {}
    for number, choice in enumerate(decision.choices):
        if stopped := [id_ for id_ in choice.jobs if id_ in refused]:
            kept, other = _divided(choice, stopped, refused, decision)
            choices[number] = kept if kept.jobs else other
            numbers[number] = len(choices) if kept.jobs else number
            choices += [other] if kept.jobs else []
    until = world.time + world.federation.brokerage.pending_time
    changes = [part for change in decision.changes for part in _parts(change, refused, numbers, until)]
    return replace(decision, changes=tuple(changes), choices=tuple(choices))


def _divided(
    choice: Choice, stopped: Sequence[int], refused: Refused, decision: Decision
) -> tuple[Choice, Choice]:
    """Return the choice without the jobs that guards stopped, and the one of these jobs."""
    queue_of = {id_: str(move.changes.get("queue")) for move in _placements(decision) for id_ in move.ids}
    placed = Counter(queue_of[id_] for id_ in choice.jobs if id_ in queue_of and id_ not in refused)
    refusals = {(one.label, one.queues): one for id_ in stopped for one in refused[id_]}
    kept = replace(choice, jobs=tuple(id_ for id_ in choice.jobs if id_ not in refused), placed=dict(placed))
    other = replace(
        choice,
        jobs=tuple(stopped),
        placed={},
        left=0,
        candidates=_without(choice.candidates, {queue for _, (queue,) in refusals}),
        refusals=(*choice.refusals, *_joined(refusals.values())),
    )
    return kept, other


def _joined(refusals: Iterable[Refusal]) -> Iterator[Refusal]:
    """Yield one refusal for each label, of all its queues."""
    by_label = defaultdict[Label, list[Refusal]](list)
    for one in refusals:
        by_label[one.label].append(one)
    for same in by_label.values():
        needs: list[Any] = [one.need for one in same]
        yield replace(
            same[0],
            queues=tuple(queue for one in same for queue in one.queues),
            have=tuple(value for one in same for value in one.have),
            need=needs[0] if needs.count(needs[0]) == len(needs) else tuple(needs),
        )


T = TypeVar("T")


def _chosen(values: Sequence[T], places: Iterable[int]) -> tuple[T, ...]:
    return tuple(values[place] for place in places if place < len(values))


def _without(candidates: Candidates, queues: set[str]) -> Candidates:
    """Return the candidates less some queues, and without their room, for lack of which nothing stopped."""
    kept = [place for place, name in enumerate(candidates.queues) if name not in queues]

    ordering = candidates.ordering
    return replace(
        candidates,
        queues=_chosen(candidates.queues, kept),
        weights=_chosen(candidates.weights, kept),
        factors={rule: _chosen(values, kept) for rule, values in candidates.factors.items()},
        ordering=replace(ordering, keys=_chosen(ordering.keys, kept)) if ordering else None,
        room=(),
    )


def _parts(change: Change, refused: Refused, numbers: Mapping[int, int], until: float) -> Iterator[Change]:
    """Yield a change in runs of jobs that are stopped or not."""
    if not isinstance(change, Move) or refused.keys().isdisjoint(change.ids):
        yield change
        return
    for is_stopped, run in groupby(range(len(change.ids)), key=lambda place: change.ids[place] in refused):
        places = list(run)
        part = piece(change, places[0], places[-1] + 1)
        if not is_stopped:
            yield part
            continue
        yield Move(
            kind="job",
            ids=part.ids,
            attempts=part.attempts,
            source=part.source,
            target=JobState.PENDING,
            cause=CAUSE,
            changes={"wake_at": until},
            choice=None if change.choice is None else numbers.get(change.choice, change.choice),
        )
