"""One queue in words: its limits, jobs and pilots, its last signs of life, and why nothing starts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pilotage.explain.advice import need_at
from pilotage.explain.analysis import explain, obstacles
from pilotage.explain.remarks import numbered, sentence
from pilotage.explain.rendering import measure, weight_of
from pilotage.explain.words import few, number
from pilotage.model.documents.decision import Choice, Refusal
from pilotage.model.documents.remarks import Remark
from pilotage.model.records.failures import ending_of
from pilotage.model.records.states import LIVE_JOBS, LIVE_PILOTS, JobState, PilotState
from pilotage.model.records.storage_spaces import FreeSpace
from pilotage.model.rules.queue_condition import QueueCondition
from pilotage.model.values.phrases import duration, moment, plural

MOST_OF_A_REASON = 160
"""Most characters of an error inside a sentence. The report on the queue has the whole error."""

LONG = 600.0
"""Seconds that a submitted pilot may wait before the queue counts as faulty."""

SEEN_LATELY = 3 * 3600.0
"""Seconds without a call after which pilots that others start count as gone (B26)."""


def fault(condition: QueueCondition) -> Remark | None:
    """Return why nothing can start at a queue; None if nothing is wrong yet."""
    name, reason = condition.queue.name, trouble(condition)
    return (
        Remark(
            kind="fault",
            subject=f"queue:{name}",
            text=f"nothing starts: {reason}",
            mend="operator",
            command=f"pilotage explain queue:{name}",
        )
        if reason
        else None
    )


def trouble(condition: QueueCondition) -> str:
    """Return why nothing can start at a queue, and who can mend it; empty if nothing is wrong yet."""
    name, queue = condition.queue.name, condition.queue
    if condition.restriction:
        return f"{name} is {condition.restriction}"
    if queue.status in ("offline", "paused", "draining"):
        return f"{name} is {queue.status} until its operator sets it online"
    if condition.pilots.get(PilotState.RUNNING):
        return ""
    reason = _without_element(condition) if queue.computing_element is None else _pilot_trouble(condition)
    if not reason:
        return ""
    called = "ever called home"
    if condition.last_pilot is not None:
        called = f"called home for {duration(condition.time - condition.last_pilot)}"
    return f"no pilot of {name} has {called}, {reason}"


def _without_element(condition: QueueCondition) -> str:
    if condition.last_pilot is not None and condition.time - condition.last_pilot <= SEEN_LATELY:
        return ""
    return "and none can be submitted: it has no computing_element; an operator can add one to the federation"


def _pilot_trouble(condition: QueueCondition) -> str:
    """Return why pilots submitted from here do not arrive."""
    if condition.problem:
        return f"and none can be submitted: {_short(condition.problem)}; an operator can mend it"
    if condition.errors:
        last = "the last one" if len(condition.errors) == 1 else f"the last {len(condition.errors)}"
        return f"and {last} failed: {_short(condition.errors[0])}; an operator can mend it"
    if condition.waiting_since is not None and condition.time - condition.waiting_since > LONG:
        pilots = plural(condition.pilots.get(PilotState.SUBMITTED, 0), "pilot")
        waits = duration(condition.time - condition.waiting_since)
        return f"and {pilots} in its site's queue, the oldest for {waits}: wait, or ask its operator"
    return ""


def of_queue(condition: QueueCondition, remarks: Sequence[Remark] = (), rules: bool = False) -> list[str]:
    """Describe one queue; with ``rules`` include the numbers of rules."""
    return list(_lines(condition, remarks, rules))


def of_task(name: str, choices: Sequence[Choice], rules: bool = False) -> list[str]:
    """Describe how the newest decision on each kind of a task's jobs judged one queue."""
    newest: dict[str, Choice] = {}
    for choice in choices:
        newest.setdefault(choice.job_kind, choice)
    lines: list[str] = []
    for kind, choice in newest.items():
        lines += [
            f"task {choice.task}, {kind} jobs:",
            *(f"  {line}" for line in _verdict(name, choice, rules)),
        ]
    return lines


def _verdict(name: str, choice: Choice, rules: bool) -> Iterator[str]:
    explanation = explain(choice)
    for place, rank in enumerate(explanation.ranks, 1):
        if rank.queue == name:
            reason = f"; {rank.why}" if rank.why else ""
            places = f"place {place} of {len(explanation.ranks)}"
            yield f"it can take them, {places}: it got {plural(rank.jobs, 'job')}{reason}"
            yield weight_of(rank, rules)
            return
    refusals = [_alone(refusal, name) for refusal in choice.refusals if name in refusal.queues]
    if not refusals:
        yield "the brokerage did not consider it"
        return
    yield f"it cannot take them, for {plural(len(refusals), 'reason')}:"
    yield from (f"- {_obstacle(refusal, rules)}" for refusal in refusals)


def _alone(refusal: Refusal, name: str) -> Refusal:
    """Reduce a refusal to one queue."""
    place = refusal.queues.index(name)
    return replace(refusal, queues=(name,), have=(refusal.have[place],), need=need_at(refusal, place))


def _obstacle(refusal: Refusal, rules: bool) -> str:
    (obstacle,) = obstacles([refusal])
    text = measure(obstacle) or f"needs {number(obstacle.need)}, has {number(refusal.have[0]) or 'nothing'}"
    return f"{numbered(refusal.name, refusal.rule, rules)}: {text}; {obstacle.action}"


def _lines(condition: QueueCondition, remarks: Sequence[Remark], rules: bool) -> Iterator[str]:
    queue, storage = condition.queue, condition.storage
    yield f"queue {queue.name} of site {queue.site}: {queue.status}"
    yield from (f"  {sentence(remark, rules)}" for remark in remarks)
    yield from (
        f"  {numbered(breaker.line(condition.time), breaker.words.rule, rules)}"
        for breaker in condition.breakers
        if breaker.kind != "storage"
    )
    yield f"  jobs: {_counted(condition.jobs, LIVE_JOBS)}"
    for share, jobs in shares(condition):
        yield f"    of share {share}: {_counted(jobs, LIVE_JOBS)}"
    yield f"  pilots: {_counted(condition.pilots, LIVE_PILOTS)}{_pilot_source(condition)}"
    yield f"  a pilot last called: {_when(condition.last_pilot, condition.time)}"
    yield f"  a job last started: {_when(condition.last_start, condition.time)}"
    if condition.errors:
        yield "  the newest pilots failed before they called home:"
        yield from (
            f"    {_line(error)}"
            for error in {ending_of(error): error for error in condition.errors}.values()
        )
    if condition.tried_at is not None and condition.time < condition.tried_at:
        wait = duration(condition.tried_at - condition.time)
        yield f"  one pilot tests it in {wait}, if jobs wait by then"
    elif condition.tried_at is not None and condition.tried_at == condition.changed:
        since = duration(condition.time - condition.changed)
        yield f"  its description changed {since} ago: one pilot tests it next, if jobs wait"
    yield f"  limits: {', '.join(limits(condition))}"
    free = (condition.space or FreeSpace(gigabytes=storage.free)).text
    closed = f", blacklisted: {few(sorted(storage.blacklisted), 4)}" if storage.blacklisted else ""
    yield f"  storage {storage.name}: {free}{closed}"
    yield from (
        f"    {numbered(breaker.line(condition.time), breaker.words.rule, rules)}"
        for breaker in condition.breakers
        if breaker.kind == "storage"
    )


def shares(condition: QueueCondition) -> Sequence[tuple[str, Mapping[JobState, int]]]:
    """Return the shares with live jobs at a queue, most jobs first; nothing if there is only one share."""
    live_shares: list[tuple[str, Mapping[JobState, int]]] = []
    for name, jobs in condition.jobs_by_share.items():
        live: dict[JobState, int] = {
            state: jobs[state] for state in jobs if state in LIVE_JOBS and jobs[state]
        }
        live_shares += [(name, live)] if live else []
    return (
        sorted(live_shares, key=lambda pair: (-sum(pair[1].values()), pair[0]))
        if len(live_shares) > 1
        else []
    )


def limits(condition: QueueCondition) -> Iterator[str]:
    """Yield the limits of a queue for jobs, one by one."""
    queue = condition.queue
    yield plural(queue.cores, "core") if queue.cores else "any cores"
    for value, unit, resource in (
        (queue.max_memory, "MB", "memory"),
        (queue.max_workdir, "MB", "work directory"),
    ):
        yield f"{resource} {number(float(value))} {unit}" if value else f"no limit of {resource}"
    longest = queue.max_walltime
    yield f"walltime {number(longest / 3600)} h" if longest else "no limit of walltime"
    if queue.vos:
        yield f"for {', '.join(queue.vos)} only"


def _pilot_source(condition: QueueCondition) -> str:
    element = condition.queue.computing_element
    if element is None:
        return ", started by others"
    bounds = " and ".join(
        f"{limit.pilots}" + (f" of {', '.join(limit.queues)} together" if limit.queues[1:] else "")
        for limit in condition.pilot_limits
    )
    return f", of at most {bounds} started from here by {element.kind}"


def _when(time: float | None, now: float) -> str:
    return "never" if time is None else f"{moment(time)}, {duration(now - time)} ago"


def _counted(counts: Mapping[Any, int], states: Sequence[Any]) -> str:
    return ", ".join(f"{counts[state]} {state}" for state in states if counts.get(state)) or "none"


def _line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _short(text: str) -> str:
    """Return the first line, short enough to leave room for the rest of a sentence."""
    line = _line(text)
    return line if len(line) <= MOST_OF_A_REASON else f"{line[:MOST_OF_A_REASON].rstrip()} ..."
