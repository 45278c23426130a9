"""Apply the guards to decisions of plugins that do not apply them themselves (B4, F1, F2, F4, M8)."""

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
"""Refusals of jobs at the queue that the plugin chose, by job. Each refusal covers only this queue."""


def refused_jobs(decision: Decision, world: World) -> Refused:
    """Return the refusals of placed jobs by guards."""
    placed = {id_: str(move.changes.get("queue")) for move in _placements(decision) for id_ in move.ids}
    if not placed:
        return {}
    queues = QueueColumns.of(world.federation).during(world)
    groups = groups_of(replace(world, jobs=tuple(job for job in world.jobs if job.id in placed)), queues)
    facts = FactsDraft(queues)
    examined = examine(GUARDS, TaskColumns.of(groups, queues), queues, facts)
    shared, refused = facts.facts(), defaultdict[int, list[Refusal]](list)
    for row, group in enumerate(groups):
        refusals = [unpacked_refusal(refusal, shared) for refusal in examined.refusals(row)]
        for id_ in group.jobs:
            refused[id_] += [
                _at(placed[id_], refusal) for refusal in refusals if placed[id_] in refusal.queues
            ]
    return {id_: reasons for id_, reasons in refused.items() if reasons}


def _placements(decision: Decision) -> Iterator[Move]:
    return (move for move in decision.moves if move.target is not JobState.PENDING)


def _at(queue: str, refusal: Refusal) -> Refusal:
    """Return a refusal for one of its queues."""
    place = refusal.queues.index(queue)
    need = refusal.need[place] if isinstance(refusal.need, tuple) else refusal.need
    return replace(refusal, queues=(queue,), have=(refusal.have[place],), need=need)


def guarded_decision(decision: Decision, world: World) -> Decision:
    """Return the decision with jobs PENDING if a guard refuses their queue, with the reason (B37)."""
    refused = refused_jobs(decision, world)
    if not refused:
        return decision
    choices = list(decision.choices)
    numbers: dict[int, int] = {}
    for number, choice in enumerate(decision.choices):
        if stopped := [id_ for id_ in choice.jobs if id_ in refused]:
            allowed_choice, stopped_choice = _divided(choice, stopped, refused, decision)
            choices[number] = allowed_choice if allowed_choice.jobs else stopped_choice
            numbers[number] = len(choices) if allowed_choice.jobs else number
            choices += [stopped_choice] if allowed_choice.jobs else []
    until = world.time + world.federation.brokerage.pending_time
    changes = [part for change in decision.changes for part in _parts(change, refused, numbers, until)]
    return replace(decision, changes=tuple(changes), choices=tuple(choices))


def _divided(
    choice: Choice, stopped: Sequence[int], refused: Refused, decision: Decision
) -> tuple[Choice, Choice]:
    """Split a choice: one without the jobs that guards stopped, one for the stopped jobs."""
    queue_of = {id_: str(move.changes.get("queue")) for move in _placements(decision) for id_ in move.ids}
    placed = Counter(queue_of[id_] for id_ in choice.jobs if id_ in queue_of and id_ not in refused)
    refusals = {(refusal.label, refusal.queues): refusal for id_ in stopped for refusal in refused[id_]}
    allowed_choice = replace(
        choice, jobs=tuple(id_ for id_ in choice.jobs if id_ not in refused), placed=dict(placed)
    )
    stopped_choice = replace(
        choice,
        jobs=tuple(stopped),
        placed={},
        left=0,
        candidates=_without(choice.candidates, {queue for _, (queue,) in refusals}),
        refusals=(*choice.refusals, *_joined(refusals.values())),
    )
    return allowed_choice, stopped_choice


def _joined(refusals: Iterable[Refusal]) -> Iterator[Refusal]:
    """Yield one refusal for each label, with all its queues."""
    by_label = defaultdict[Label, list[Refusal]](list)
    for refusal in refusals:
        by_label[refusal.label].append(refusal)
    for same in by_label.values():
        needs: list[Any] = [refusal.need for refusal in same]
        yield replace(
            same[0],
            queues=tuple(queue for refusal in same for queue in refusal.queues),
            have=tuple(value for refusal in same for value in refusal.have),
            need=needs[0] if needs.count(needs[0]) == len(needs) else tuple(needs),
        )


T = TypeVar("T")


def _chosen(values: Sequence[T], places: Iterable[int]) -> tuple[T, ...]:
    return tuple(values[place] for place in places if place < len(values))


def _without(candidates: Candidates, queues: set[str]) -> Candidates:
    """Return the candidates without some queues, and without ``room``, because no job was stopped for lack of
    room."""
    positions = [place for place, name in enumerate(candidates.queues) if name not in queues]

    ordering = candidates.ordering
    return replace(
        candidates,
        queues=_chosen(candidates.queues, positions),
        weights=_chosen(candidates.weights, positions),
        factors={rule: _chosen(values, positions) for rule, values in candidates.factors.items()},
        ordering=replace(ordering, keys=_chosen(ordering.keys, positions)) if ordering else None,
        room=(),
    )


def _parts(change: Change, refused: Refused, numbers: Mapping[int, int], until: float) -> Iterator[Change]:
    """Split a change into runs of stopped and other jobs; the stopped ones become PENDING."""
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
