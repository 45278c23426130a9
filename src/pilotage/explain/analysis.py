"""Analyse a stored choice: why jobs wait or where they went, as plain records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from math import inf, isfinite
from typing import cast

from pilotage.explain.advice import asked_at, find_advice, need_at
from pilotage.explain.words import number
from pilotage.model.documents.decision import Choice, DatedChoice, Refusal, Value
from pilotage.model.documents.remarks import Mend

FULL = "full after earlier jobs of this pass"
"""Why a candidate without room got no jobs. Queues that were full before the pass are not candidates."""

# Cheapest first: a change by the user, waiting, a change by an operator.
_EASIEST: tuple[Mend, ...] = ("user", "wait", "operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A check that refuses queues. ``best`` is the value of the queue nearest to the need, if values are
    numbers.

    ``asked`` is the user's request, if it differs from the need. ``only`` counts the queues without any other
    obstacle. ``action`` names who can mend it, and how.
    """

    rule: str
    name: str
    mend: Mend
    queues: int
    only: int
    need: Value
    best: Value
    unit: str
    action: str
    asked: Value = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A single change that would open ``queues``.

    ``event`` will lift the obstacle by itself; empty if a person must act.
    """

    rule: str
    name: str
    mend: Mend
    action: str
    event: str
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """Changes by the user that open a queue only together."""

    actions: tuple[str, ...]
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A candidate: its weight, each factor by rule, and the number of jobs that it got.

    ``key`` is the sort key, if candidates were not ordered by weight. ``why`` is the reason why it got no
    jobs although others did.
    """

    queue: str
    weight: float
    factors: Mapping[str, float]
    jobs: int
    key: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An explained choice. ``margin`` is the gap between the runner-up's weight and the winner's, as a
    fraction.

    The winner is the best queue that got jobs, or else the best of all. The runner-up is the next one with
    room.

    ``decided_by`` is the rule with the factor that most favours the winner over the runner-up. If candidates
    were not ordered by weight, there is no margin, and ``ordering`` and its rule name what ordered them.
    ``obstacles`` start with the one that is the only obstacle at most queues. ``cheapest`` is None if no
    single change opens a queue. Then ``together`` lists what the user could do, if that suffices anywhere.
    ``ids`` are the jobs that were placed or made pending. ``left`` counts jobs, pending or still DEFINED,
    that found no room at fitting queues. With ``is_stopped`` they are pending because the queue that their
    plugin chose refuses them.
    """

    task: int
    job_kind: str
    jobs: int
    left: int
    considered: int
    placed: Mapping[str, int]
    ranks: tuple[Rank, ...]
    runner_up: str
    margin: float | None
    decided_by: str
    obstacles: tuple[Obstacle, ...]
    cheapest: Remedy | None
    together: Remedies | None
    waived: tuple[Obstacle, ...]
    ordering: str = ""
    ordering_rule: str = ""
    ids: tuple[int, ...] = ()
    is_stopped: bool = False


def first_obstacle(choice: Choice | None) -> Obstacle | None:
    """Return what most blocks the jobs of a choice; None if they only lack room."""
    explanation = explain(choice) if choice else None
    is_refused = explanation and explanation.obstacles and (not explanation.ranks or explanation.is_stopped)
    return explanation.obstacles[0] if explanation and is_refused else None


def _count_jobs_left(choice: Choice) -> int:
    """Return the number of jobs that only B36 stops: they are pending, or still DEFINED."""
    crowded = {queue for refusal in choice.refusals if refusal.rule == "B36" for queue in refusal.queues}
    unfit = {queue for refusal in choice.refusals if refusal.rule != "B36" for queue in refusal.queues}
    over = len(choice.jobs) - sum(choice.placed.values())
    return choice.left + (over if choice.candidates.queues or crowded - unfit else 0)


def _is_stopped(choice: Choice) -> bool:
    """Return whether a guard refused the queue that a plugin chose: queues fit, and no refusal is for lack of
    room."""
    candidates = choice.candidates
    full = any(refusal.rule == "B36" for refusal in choice.refusals) or choice.left
    return bool(candidates.queues and choice.refusals) and not (choice.placed or candidates.room or full)


def explain(choice: Choice) -> Explanation:
    """Analyse everything in a choice."""
    ranks = _ranks(choice)
    refusals = _measure(choice.refusals)
    changes = [change for measured in refusals if (change := _remedy(measured))]
    winner = next((rank for rank in ranks if rank.jobs), ranks[0] if ranks else None)
    able = [rank for rank in ranks if rank is not winner and rank.why != FULL]
    second = able[0] if able else None
    ordering = choice.candidates.ordering
    by_weight = second if ordering is None else None
    return Explanation(
        task=choice.task,
        job_kind=choice.job_kind,
        jobs=len(choice.jobs),
        left=_count_jobs_left(choice),
        considered=choice.considered,
        placed=dict(choice.placed),
        ranks=ranks,
        runner_up=second.queue if second else "",
        margin=1 - by_weight.weight / winner.weight if winner and by_weight and winner.weight > 0 else None,
        decided_by=_decided_by(winner, by_weight) if winner and by_weight else "",
        obstacles=_in_order(refusals),
        cheapest=min(changes, key=lambda pair: pair[0])[1] if changes else None,
        together=None if changes or ranks else _together(refusals),
        waived=tuple(
            replace(_obstacle(_MeasuredRefusal.of(refusal, ())), action=refusal.lifted_by)
            for refusal in choice.waived
        ),
        ordering=ordering.name if ordering else "",
        ordering_rule=ordering.rule if ordering else "",
        ids=tuple(choice.jobs),
        is_stopped=_is_stopped(choice),
    )


def obstacles(refusals: Sequence[Refusal]) -> tuple[Obstacle, ...]:
    """Return an obstacle for each refusal, first the one that is the only obstacle at most queues."""
    return _in_order(_measure(refusals))


def _in_order(refusals: Iterable["_MeasuredRefusal"]) -> tuple[Obstacle, ...]:
    order = sorted(
        map(_obstacle, refusals),
        key=lambda obstacle: (-obstacle.only, -obstacle.queues, _number(obstacle.rule), obstacle.name),
    )
    return tuple(order)


def group_repeats(choices: Iterable[DatedChoice]) -> list[list[DatedChoice]]:
    """Return the choices in order, grouped if they differ only in their jobs' ids and their times."""
    groups: list[tuple[tuple[DatedChoice, int], list[DatedChoice]]] = []
    for choice in choices:
        bare = replace(choice, jobs=(), time=0), _count_jobs_left(choice)
        group = next((members for key, members in groups if key == bare), None)
        if group is None:
            groups.append((bare, [choice]))
        else:
            group.append(choice)
    return [members for _, members in groups]


def _ranks(choice: Choice) -> tuple[Rank, ...]:
    candidates, reasons = choice.candidates, _reasons_for_none(choice)
    return tuple(
        Rank(
            queue=queue,
            weight=weight,
            factors={rule: values[position] for rule, values in candidates.factors.items()},
            jobs=choice.placed.get(queue, 0),
            key=candidates.ordering.keys[position] if candidates.ordering else None,
            why=reasons[position],
        )
        for position, (queue, weight) in enumerate(zip(candidates.queues, candidates.weights, strict=True))
    )


def _reasons_for_none(choice: Choice) -> list[str]:
    """Return for each candidate why it got no jobs although others did; empty if it got some."""
    candidates, reasons, open_before = choice.candidates, [], 0
    for position, queue in enumerate(candidates.queues):
        full = bool(candidates.room) and candidates.room[position] < 1
        if choice.placed.get(queue, 0):
            reasons.append("")
        elif full:
            reasons.append(FULL)
        elif not choice.placed:
            reasons.append("")
        elif candidates.most and open_before >= candidates.most:
            reasons.append(f"not among the best {candidates.most} with room")
        else:
            reasons.append("other queues take all the jobs")
        open_before += not full
    return reasons


def _number(rule: str) -> tuple[str, int]:
    """Return a sort key for rules: by letter, then by number, so that B9 comes before B15."""
    letters = rule.rstrip("0123456789")
    return letters, int(rule[len(letters) :] or 0)


def _decided_by(best: Rank, second: Rank) -> str:
    gains = {
        rule: value / second.factors[rule] for rule, value in best.factors.items() if second.factors[rule] > 0
    }
    rule = max(sorted(gains), key=gains.__getitem__, default="")
    return rule if rule and gains[rule] > 1 else ""


@dataclass(frozen=True, slots=True)
class _MeasuredRefusal:
    """A refusal, with the indexes of queues that have no other obstacle (``alone``), and each queue's gap.

    The gap is the distance between have and need, relative to the need; infinite if they are not numbers.
    """

    refusal: Refusal
    alone: Sequence[int]
    gaps: Sequence[float]

    @classmethod
    def of(cls, refusal: Refusal, alone: Sequence[int]) -> "_MeasuredRefusal":
        """Return the measured refusal."""
        needs = refusal.need if isinstance(refusal.need, tuple) else repeat(refusal.need)
        return cls(refusal, alone, list(map(_gap, needs, refusal.have)))

    def nearest(self, places: Sequence[int]) -> int | None:
        """Return the index of the queue nearest to the need; None if need and have are not numbers."""
        best = min(places, key=self.gaps.__getitem__)
        return best if isfinite(self.gaps[best]) else None


def _measure(refusals: Sequence[Refusal]) -> list[_MeasuredRefusal]:
    by_check: dict[str, set[str]] = {}
    for refusal in refusals:
        by_check.setdefault(_key(refusal), set()).update(refusal.queues)
    once, several = set[str](), set[str]()
    # A queue that occurs a second time is in several refusals. Two unions find it without a count per queue.
    for queues in by_check.values():
        several |= once & queues
        once |= queues
    return [
        _MeasuredRefusal.of(
            refusal, [place for place, name in enumerate(refusal.queues) if name not in several]
        )
        for refusal in refusals
    ]


def _gap(need: Value, have: Value) -> float:
    # Compare types instead of isinstance: a boolean is an int in Python, and this runs for each queue.
    if type(need) not in _NUMBERS or type(have) not in _NUMBERS:
        return inf
    need_number, have_number = cast(float, need), cast(float, have)
    return abs(need_number - have_number) / max(abs(need_number), 1e-9)


_NUMBERS = (int, float)


def _key(refusal: Refusal) -> str:
    return f"{refusal.rule} {refusal.name}"


def _obstacle(measured: _MeasuredRefusal) -> Obstacle:
    refusal, alone = measured.refusal, measured.alone
    nearest = measured.nearest(range(len(refusal.queues)))
    opening = measured.nearest(alone) if alone else nearest
    return Obstacle(
        rule=refusal.rule,
        name=refusal.name,
        mend=refusal.mend,
        queues=len(refusal.queues),
        only=len(alone),
        need=need_at(refusal, nearest or 0),
        best=refusal.have[nearest] if nearest is not None else None,
        unit=refusal.unit,
        action=_action(refusal, opening),
        asked=None if nearest is None else asked_at(refusal, nearest),
    )


def _remedy(measured: _MeasuredRefusal) -> tuple[tuple[int, float, int, str], Remedy] | None:
    """Return the smallest change of this check that opens a queue, with its cost; None if there is none."""
    refusal, alone = measured.refusal, measured.alone
    if not alone:
        return None
    nearest = measured.nearest(alone)
    gap = 1.0 if nearest is None else measured.gaps[nearest]
    by_amount = nearest is not None and not _lifts_everywhere(refusal)
    # A value that suffices for the nearest queue suffices for all equally near.
    opened = [place for place in alone if not by_amount or measured.gaps[place] <= gap]
    change = Remedy(
        rule=refusal.rule,
        name=refusal.name,
        mend=refusal.mend,
        action=_action(refusal, nearest),
        event=refusal.lifted_by if refusal.mend == "wait" else "",
        queues=tuple(refusal.queues[place] for place in opened),
    )
    return (_EASIEST.index(refusal.mend), gap, -len(opened), _key(refusal)), change


def _together(refusals: Sequence[_MeasuredRefusal]) -> Remedies | None:
    """Return the fewest changes by the user that open a queue; None if others must act everywhere."""
    by_queue: dict[str, list[tuple[_MeasuredRefusal, int]]] = {}
    for measured in refusals:
        for place, queue in enumerate(measured.refusal.queues):
            by_queue.setdefault(queue, []).append((measured, place))
    options = [
        (len(items), sum(min(measured.gaps[place], 1.0) for measured, place in items), queue)
        for queue, items in by_queue.items()
        if all(measured.refusal.mend == "user" for measured, _ in items)
    ]
    if not options:
        return None
    _, _, queue = min(options)
    actions = tuple(_action(measured.refusal, place) for measured, place in by_queue[queue])
    return Remedies(actions=actions, queue=queue)


def _lifts_everywhere(refusal: Refusal) -> bool:
    """Return whether one change by the user lifts the check at all queues."""
    if refusal.mend != "user":
        return False
    return not refusal.asked or any(request.instead is not None for request in refusal.asked)


def _action(refusal: Refusal, nearest: int | None) -> str:
    if refusal.mend == "wait":
        return f"wait: {refusal.lifted_by}" if refusal.lifted_by else "wait"
    if refusal.mend == "operator":
        return f"operator: {refusal.lifted_by}" if refusal.lifted_by else "operator"
    advice = find_advice(refusal, nearest or 0)
    if advice:
        return f"you: ask for {advice[0]}: {number(advice[1])}"
    return f"you: {refusal.lifted_by or 'change ' + refusal.name}"
