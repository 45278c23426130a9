"""An analysis as lines of text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pilotage.explain.analysis import Explanation, Obstacle, Rank, Remedy, explain, group_repeats
from pilotage.explain.remarks import numbered
from pilotage.explain.words import amount, few, number, shortened
from pilotage.model.documents.decision import Choice, DatedChoice
from pilotage.model.values.phrases import jobs_wait, moment, plural

_CALLED = {"normal": "job", "scout": "scout", "merge": "merge job"}
FACTORS = {"B8": "nucleus", "B32": "load", "B33": "data", "B34": "network", "M4": "Rank"}
"""Words for the factors of a weight."""

MOST_CANDIDATES = 10
"""Candidates without jobs are shown only up to this rank."""


def of_choices(choices: Iterable[DatedChoice], rules: bool = False) -> list[str]:
    """Return decisions as text; with ``rules`` include the numbers of rules. Combine decisions that differ
    only in jobs and time."""
    text: list[str] = []
    for group in group_repeats(choices):
        ids = {job: None for choice in group for job in choice.jobs}
        whole = replace(explain(group[0]), ids=tuple(ids))
        first, last = (moment(pick(choice.time for choice in group)) for pick in (min, max))
        when = f"of {first}" if first == last else f"of {first} to {last}"
        text += lines(whole, when, decisions=len(group), rules=rules)
    return text


def of_planned(name: str, choices: Sequence[Choice]) -> list[str]:
    """Return the choices for a task that is not submitted yet, by kind of job."""
    several = len({choice.job_kind for choice in choices}) > 1
    text = _sum(name, choices)
    for choice in choices:
        subject = f"{name} ({choice.job_kind} jobs)" if several else name
        text += lines(explain(choice), subject=subject)
    return text


def _sum(name: str, choices: Sequence[Choice]) -> list[str]:
    """Count jobs of a task by queue: ``60 jobs: home 23 (10 scouts), lab 23, hpc 14``; nothing if no queue
    fits."""
    placed: dict[str, dict[str, int]] = {}
    for choice in choices:
        for queue, jobs in choice.placed.items():
            kinds = placed.setdefault(queue, {})
            kinds[choice.job_kind] = kinds.get(choice.job_kind, 0) + jobs
    if not placed:
        return []
    jobs = sum(len(choice.jobs) + choice.left for choice in choices)
    parts = []
    for queue, kinds in sorted(placed.items(), key=lambda item: (-sum(item[1].values()), item[0])):
        scouts = f" ({plural(kinds['scout'], 'scout')})" if kinds.get("scout") and len(choices) > 1 else ""
        parts.append(f"{queue} {sum(kinds.values())}{scouts}")
    nowhere = jobs - sum(sum(kinds.values()) for kinds in placed.values())
    waiting = sum(len(choice.jobs) + choice.left for choice in choices if choice.job_kind == "scout")
    waiting -= sum(kinds.get("scout", 0) for kinds in placed.values())
    first = f" ({plural(waiting, 'scout')}; the others wait for them)" if waiting else ""
    rest = [f"{nowhere} nowhere yet{first}"] if nowhere else []
    return [f"{name}: {plural(jobs, 'job')}: {', '.join([*parts, *rest])}"]


def lines(
    explanation: Explanation, world: str = "", subject: str = "", decisions: int = 1, rules: bool = False
) -> list[str]:
    """Return an explanation as text: the placed jobs and why, or the obstacles.

    ``world`` names the snapshot. ``subject`` replaces the task's number and the numbers of its jobs. If
    ``decisions`` is above 1, several equal decisions about different jobs were combined. With ``rules`` the
    text includes the numbers of the published rules.
    """
    source = f" (world {world})" if world else ""
    prefix = f"{decisions} decisions alike, each: " if decisions > 1 else ""
    text = [f"{subject or subject_of(explanation)}: {prefix}{_headline(explanation)}{source}"]
    if explanation.placed:
        text += _placement_lines(explanation, rules)
        if explanation.obstacles:
            refused = (f"{item.name} ({plural(item.queues, 'queue')})" for item in explanation.obstacles)
            text.append(f"  refused: {', '.join(refused)}")
    else:
        text += _obstacle_lines(explanation.obstacles)
        if explanation.cheapest:
            text.append("  " + _remedy_line(explanation.cheapest, rules))
        elif explanation.together:
            actions = "; ".join(action.removeprefix("you: ") for action in explanation.together.actions)
            text.append(f"  these changes together open {explanation.together.queue}: you: {actions}")
        elif explanation.obstacles and not explanation.ranks:
            text.append("  no single change opens a queue")
    text += [
        f"  {numbered(obstacle.name, obstacle.rule, rules)} would have refused "
        f"{plural(obstacle.queues, 'queue')}, but {obstacle.action}"
        for obstacle in explanation.waived
    ]
    return text


def subject_of(explanation: Explanation) -> str:
    """Return the task and the jobs of the decision: ``task 12, scouts 1-5``."""
    called = _CALLED.get(explanation.job_kind, f"{explanation.job_kind} job")
    if not explanation.ids:
        return f"task {explanation.task}" + ("" if called == "job" else f", {called}s")
    ending = "s" if len(explanation.ids) > 1 else ""
    return f"task {explanation.task}, {called}{ending} {shortened(explanation.ids)}"


def _headline(explanation: Explanation) -> str:
    fitting, considered, left = len(explanation.ranks), explanation.considered, explanation.left
    jobs = sum(explanation.placed.values()) + left or len(explanation.ids)
    them = "it" if jobs == 1 else "them"
    queues = "the only queue considered" if considered == 1 else f"{fitting} of {considered} queues"
    those = f"{queues} can take {them}"
    if explanation.placed:
        waiting = f", {left} {'waits' if left == 1 else 'wait'}" if left else ""
        return f"{plural(sum(explanation.placed.values()), 'job')} placed{waiting}; {those}"
    if explanation.is_stopped:
        return f"{jobs_wait(left)}: the queue that their plugin chose refuses {them}; {those}"
    if explanation.ranks:
        return f"{jobs_wait(left)}: each queue that can take {them} has enough waiting jobs"
    if left:
        any_queue = "the only queue considered" if considered == 1 else f"one of {considered} queues"
        return f"{jobs_wait(left)} until {any_queue} has room"
    no_queue = "the only queue considered cannot" if considered == 1 else f"none of {considered} queues can"
    return f"{no_queue} take {them}"


def _obstacle_lines(obstacles: Sequence[Obstacle]) -> list[str]:
    """Return one line per obstacle, in columns."""
    cells = [
        (
            obstacle.name,
            plural(obstacle.queues, "queue"),
            measure(obstacle),
            alone(obstacle),
            obstacle.action,
        )
        for obstacle in obstacles
    ]
    widths = [max((len(row[column]) for row in cells), default=0) for column in range(4)]
    aligned = "  {0:<{4}}    {1:>{5}}  {2:<{6}}   {3:<{7}}   "
    return [aligned.format(*row[:4], *widths) + row[4] for row in cells]


def alone(obstacle: Obstacle) -> str:
    """Return at how many of its queues an obstacle is the only one; empty if at none."""
    if not obstacle.only:
        return ""
    where = "there" if obstacle.only == obstacle.queues else f"at {obstacle.only} of them"
    return f"the only obstacle {where}"


def measure(obstacle: Obstacle) -> str:
    """Return need and have of an obstacle; empty if they are not numbers."""
    if obstacle.best is None:
        return ""
    best = number(obstacle.best)
    if obstacle.asked is not None:
        return f"{amount(obstacle.asked, obstacle.unit)} asked, {number(obstacle.need)} counted, best {best}"
    return f"need {amount(obstacle.need, obstacle.unit)}, best {best}"


def _remedy_line(remedy: Remedy, rules: bool) -> str:
    opened = plural(len(remedy.queues), "queue")
    change = f"{numbered(remedy.name, remedy.rule, rules)}, {remedy.action}"
    return f"cheapest change: {change}; opens {opened}: {few(remedy.queues)}"


def _placement_lines(explanation: Explanation, rules: bool) -> list[str]:
    ranks = [rank for place, rank in enumerate(explanation.ranks) if rank.jobs or place < MOST_CANDIDATES]
    width = max(len(rank.queue) for rank in ranks)
    order = numbered(explanation.ordering, explanation.ordering_rule, rules)
    text = [
        f"  {rank.queue:<{width}}   {plural(rank.jobs, 'job'):>10}   "
        + ("" if rank.key is None else f"{order} {number(rank.key)}, ")
        + weight_of(rank, rules)
        + (f"; {rank.why}" if rank.why else "")
        for rank in ranks
    ]
    if len(ranks) < len(explanation.ranks):
        text.append(f"  and {len(explanation.ranks) - len(ranks)} more")
    if explanation.margin is not None:
        rule = explanation.decided_by
        reason = f", most by {numbered(FACTORS.get(rule, rule), rule, rules)}" if rule else ""
        text.append(f"  runner-up {explanation.runner_up}, {100 * explanation.margin:.1f} % behind{reason}")
    elif explanation.ordering and explanation.runner_up:
        text.append(f"  runner-up {explanation.runner_up}, by {order}")
    return text


def weight_of(rank: Rank, rules: bool = False) -> str:
    """Return the weight with its factors; a Rank is not a weight (M4), so return it alone."""
    product = factors_of(rank.factors, rules)
    return product if [*rank.factors] == ["M4"] else f"weight {rank.weight:.4g} = {product}"


def factors_of(factors: Mapping[str, float], rules: bool = False) -> str:
    """Return the factors of a weight in words: ``load 0.5 x data 2``. A factor without a word has the number
    of its rule."""
    return " x ".join(
        numbered(f"{FACTORS.get(rule, rule)} {value:.4g}", rule if rule in FACTORS else "", rules)
        for rule, value in factors.items()
    )
