"""Why a job waits or went where it went: from a stored choice to plain structures, and to lines of text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pilotage.model.decision import Choice, Mend, Refusal, Value

from .advice import advised, asked_at, need_at, numbers_at

_EASIEST: tuple[Mend, ...] = ("user", "wait", "operator")
_CALLED = {"normal": "job", "scout": "scout", "merge": "merge job"}
MOST_SHOWN = 10
"""Candidates that got no jobs are shown up to this place, and as many runs of job numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A check that refuses queues. ``best`` is what the queue nearest to the need has, if numbers.

    ``asked`` is what the user asked for, where the need is another number than that. ``only`` counts the
    queues at which nothing else stands in the way; ``action`` says who can mend it, how.
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
class Change:
    """A single change that would open ``queues``; ``event`` is what lifts it where nobody needs to act."""

    rule: str
    name: str
    mend: Mend
    action: str
    event: str
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A candidate: its weight, each factor by rule, and how many of the jobs it got.

    ``key`` is what it was ordered by, where that was not its weight.
    """

    queue: str
    weight: float
    factors: Mapping[str, float]
    jobs: int
    key: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A choice explained. ``margin`` is how far the runner-up's weight lies below the best, as a part of it.

    ``decided_by`` is the rule whose factor speaks most for the best against the runner-up. Where candidates
    were not ordered by weight there is no margin, and ``ordering`` names the rule that ordered them.
    ``obstacles`` that are the only ones at most queues come first. ``cheapest`` is None where no single
    change opens a queue. ``ids`` are the jobs that were placed or made pending.
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
    cheapest: Change | None
    waived: tuple[Obstacle, ...]
    ordering: str = ""
    ids: tuple[int, ...] = ()


def explain(choice: Choice) -> Explanation:
    """All that a choice can say."""
    ranks = _ranks(choice)
    only = _only_obstacles(choice.refusals)
    obstacles = sorted(
        (_obstacle(refusal, only) for refusal in choice.refusals),
        key=lambda obstacle: (-obstacle.only, -obstacle.queues, _number(obstacle.rule), obstacle.name),
    )
    changes = [change for refusal in choice.refusals if (change := _change(refusal, only))]
    second = ranks[1] if len(ranks) > 1 else None
    ordering = choice.candidates.ordering
    by_weight = second if ordering is None else None
    return Explanation(
        task=choice.task,
        job_kind=choice.job_kind,
        jobs=len(choice.jobs),
        left=choice.left,
        considered=choice.considered,
        placed=dict(choice.placed),
        ranks=ranks,
        runner_up=second.queue if second else "",
        margin=1 - by_weight.weight / ranks[0].weight if by_weight and ranks[0].weight > 0 else None,
        decided_by=_decided_by(ranks[0], by_weight) if by_weight else "",
        obstacles=tuple(obstacles),
        cheapest=min(changes, key=lambda pair: pair[0])[1] if changes else None,
        waived=tuple(_obstacle(refusal, {}) for refusal in choice.waived),
        ordering=f"{ordering.rule} {ordering.name}" if ordering else "",
        ids=tuple(choice.jobs),
    )


def alike(choices: Iterable[Choice]) -> list[list[Choice]]:
    """The choices in their order, those together that differ in nothing but their jobs."""
    groups: list[tuple[Choice, list[Choice]]] = []
    for choice in choices:
        bare = replace(choice, jobs=())
        group = next((members for known, members in groups if known == bare), None)
        if group is None:
            groups.append((bare, [choice]))
        else:
            group.append(choice)
    return [members for _, members in groups]


def lines(explanation: Explanation, world: str = "", subject: str = "", decisions: int = 1) -> list[str]:
    """The same as text: what was placed and why, or what stands in the way.

    ``world`` names the snapshot, ``subject`` what was decided about, where it is not the task and its jobs
    by their numbers. More than one of the ``decisions`` were like this one, of other jobs each.
    """
    source = f" (world {world})" if world else ""
    many = f"{decisions} decisions alike, each: " if decisions > 1 else ""
    text = [f"{subject or subject_of(explanation)}: {many}{_headline(explanation)}{source}"]
    if explanation.placed:
        text += _placement_lines(explanation)
        if explanation.obstacles:
            refused = (f"{item.name} {_plural(item.queues, 'queue')}" for item in explanation.obstacles)
            text.append(f"  refused: {', '.join(refused)}")
    else:
        text += _obstacle_lines(explanation.obstacles)
        if explanation.cheapest:
            text.append("  " + _change_line(explanation.cheapest))
        elif explanation.obstacles and not explanation.ranks:
            text.append("  no single change opens a queue")
    text += [
        f"  {obstacle.rule} {obstacle.name} would have refused {_plural(obstacle.queues, 'queue')}, "
        "but the task names them"
        for obstacle in explanation.waived
    ]
    return text


def subject_of(explanation: Explanation) -> str:
    """The task and the jobs that were decided about: ``task 12, scouts 1-5``."""
    called = _CALLED.get(explanation.job_kind, f"{explanation.job_kind} job")
    if not explanation.ids:
        return f"task {explanation.task}" + ("" if called == "job" else f", {called}s")
    many = "s" if len(explanation.ids) > 1 else ""
    return f"task {explanation.task}, {called}{many} {shortened(explanation.ids)}"


def shortened(ids: Iterable[int]) -> str:
    """Numbers by their runs: ``1-5, 9``; where there are very many runs, the first and how many in all."""
    runs: list[list[int]] = []
    numbers = sorted(ids)
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    text = ", ".join("-".join(map(str, run)) for run in runs[:MOST_SHOWN])
    return text if len(runs) <= MOST_SHOWN else f"{text}, ... ({len(numbers)} in all)"


def _ranks(choice: Choice) -> tuple[Rank, ...]:
    found = choice.candidates
    return tuple(
        Rank(
            queue=queue,
            weight=weight,
            factors={rule: values[position] for rule, values in found.factors.items()},
            jobs=choice.placed.get(queue, 0),
            key=found.ordering.keys[position] if found.ordering else None,
        )
        for position, (queue, weight) in enumerate(zip(found.queues, found.weights, strict=True))
    )


def _number(rule: str) -> tuple[str, int]:
    """Rules in order: B9 before B15, and before those of another letter."""
    letters = rule.rstrip("0123456789")
    return letters, int(rule[len(letters) :] or 0)


def _decided_by(best: Rank, second: Rank) -> str:
    gains = {
        rule: value / second.factors[rule] for rule, value in best.factors.items() if second.factors[rule] > 0
    }
    rule = max(sorted(gains), key=gains.__getitem__, default="")
    return rule if rule and gains[rule] > 1 else ""


def _only_obstacles(refusals: Iterable[Refusal]) -> dict[str, str]:
    """Queues that one check alone refuses, with that check's key."""
    found: dict[str, set[str]] = {}
    for refusal in refusals:
        for queue in refusal.queues:
            found.setdefault(queue, set()).add(_key(refusal))
    return {queue: next(iter(keys)) for queue, keys in found.items() if len(keys) == 1}


def _key(refusal: Refusal) -> str:
    return f"{refusal.rule} {refusal.name}"


def _obstacle(refusal: Refusal, only: Mapping[str, str]) -> Obstacle:
    alone = [place for place, queue in enumerate(refusal.queues) if only.get(queue) == _key(refusal)]
    nearest = _nearest(refusal, range(len(refusal.queues)))
    opening = _nearest(refusal, alone) if alone else nearest
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


def _change(refusal: Refusal, only: Mapping[str, str]) -> tuple[tuple[int, float, int, str], Change] | None:
    """The smallest change of this check that opens a queue, with what it costs; None where none does."""
    alone = [place for place, queue in enumerate(refusal.queues) if only.get(queue) == _key(refusal)]
    if not alone:
        return None
    nearest = _nearest(refusal, alone)
    gap = 1.0 if nearest is None else _gap(refusal, nearest)
    opened = [place for place in alone if nearest is None or _gap(refusal, place) <= gap]
    change = Change(
        rule=refusal.rule,
        name=refusal.name,
        mend=refusal.mend,
        action=_action(refusal, nearest),
        event=refusal.lifted_by if refusal.mend == "wait" else "",
        queues=tuple(refusal.queues[place] for place in opened),
    )
    return (_EASIEST.index(refusal.mend), gap, -len(opened), _key(refusal)), change


def _gap(refusal: Refusal, place: int) -> float:
    """How far what there is lies from what is needed, as a part of the need; infinite where not numbers."""
    numbers = numbers_at(refusal, place)
    if numbers is None:
        return float("inf")
    need, have = numbers
    return abs(need - have) / max(abs(need), 1e-9)


def _nearest(refusal: Refusal, places: Sequence[int]) -> int | None:
    """The place whose queue comes nearest to the need; None where need and have are no numbers."""
    best = min(places, key=lambda place: _gap(refusal, place))
    return None if numbers_at(refusal, best) is None else best


def _action(refusal: Refusal, nearest: int | None) -> str:
    if refusal.mend == "wait":
        return f"wait: {refusal.lifted_by}" if refusal.lifted_by else "wait"
    if refusal.mend == "operator":
        return "operator"
    advice = None if nearest is None else advised(refusal, nearest)
    if advice:
        return f"you: ask for {advice[0]}: {_text(advice[1])}"
    return f"you: {refusal.lifted_by or 'change ' + refusal.name}"


def _headline(explanation: Explanation) -> str:
    if explanation.placed:
        placed = f"{_plural(sum(explanation.placed.values()), 'job')} placed, {explanation.left} left"
        return f"{placed}; {len(explanation.ranks)} of {_plural(explanation.considered, 'queue')} fit"
    if explanation.ranks:
        return f"{_plural(explanation.left, 'job')} left, every queue that fits has its fill of waiting jobs"
    if explanation.left:
        return f"{_plural(explanation.left, 'job')} left until a queue of {explanation.considered} has room"
    return f"no queue of {explanation.considered} fits"


def _obstacle_lines(obstacles: Sequence[Obstacle]) -> list[str]:
    """One line each, in columns."""
    cells = [
        (
            obstacle.name,
            _plural(obstacle.queues, "queue"),
            _measure(obstacle),
            f"only obstacle at {obstacle.only}",
            obstacle.action,
        )
        for obstacle in obstacles
    ]
    widths = [max((len(row[column]) for row in cells), default=0) for column in range(4)]
    aligned = "  {0:<{4}}    {1:>{5}}  {2:<{6}}   {3:<{7}}   "
    return [aligned.format(*row[:4], *widths) + row[4] for row in cells]


def _measure(obstacle: Obstacle) -> str:
    if obstacle.best is None:
        return ""
    unit = f" {obstacle.unit}" if obstacle.unit else ""
    if obstacle.asked is not None:
        counted = f"{_text(obstacle.asked)}{unit} asked, {_text(obstacle.need)} counted"
        return f"{counted}, best {_text(obstacle.best)}"
    return f"need {_text(obstacle.need)}{unit}, best {_text(obstacle.best)}"


def _change_line(change: Change) -> str:
    opened = _plural(len(change.queues), "queue")
    what = f"{change.rule} {change.name}, {change.action}"
    return f"cheapest change: {what}; opens {opened}: {_few(change.queues)}"


def _placement_lines(explanation: Explanation) -> list[str]:
    shown = [rank for place, rank in enumerate(explanation.ranks) if rank.jobs or place < MOST_SHOWN]
    width = max(len(rank.queue) for rank in shown)
    text = [
        f"  {rank.queue:<{width}}   {_plural(rank.jobs, 'job'):>10}   {_ordered_by(explanation, rank)}"
        f"weight {rank.weight:.4g} = "
        + " x ".join(f"{rule} {value:.4g}" for rule, value in rank.factors.items())
        for rank in shown
    ]
    if len(shown) < len(explanation.ranks):
        text.append(f"  and {len(explanation.ranks) - len(shown)} more")
    if explanation.margin is not None:
        why = f", most by {explanation.decided_by}" if explanation.decided_by else ""
        text.append(f"  runner-up {explanation.runner_up}, {100 * explanation.margin:.1f} % behind{why}")
    elif explanation.ordering and explanation.runner_up:
        text.append(f"  runner-up {explanation.runner_up}, by {explanation.ordering}")
    return text


def _ordered_by(explanation: Explanation, rank: Rank) -> str:
    return "" if rank.key is None else f"{explanation.ordering} {_text(rank.key)}, "


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _text(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
