"""Lines of text about a decision from a saved world: what would change, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pilotage.explain.analysis import Explanation, explain
from pilotage.explain.layout import Column, folded, table
from pilotage.explain.pilots import stays
from pilotage.explain.rendering import lines, of_planned
from pilotage.explain.words import few, shortened
from pilotage.model.documents.decision import Choice, Create, Decision, Forget, Move, Touch
from pilotage.model.documents.world import World
from pilotage.model.records.borrowing import CAUSE, CAUSES
from pilotage.model.records.matching import BorrowRequest, ClaimRequest
from pilotage.model.records.transfer_queues import TRANSFER_QUEUES, TransferQueue
from pilotage.model.records.work import NewPilot, Requirements
from pilotage.model.rules.job_order import Heads
from pilotage.model.values.phrases import plural

CHANGES = (
    Column("records", number=True),
    Column("kind"),
    Column("ids"),
    Column("change"),
    Column("queue"),
    Column("pilot", number=True),
    Column("cause", essential=False),
)
TASK_QUEUES = (
    Column("queue"),
    Column("jobs", number=True),
    Column("waiting", number=True),
    Column("target", number=True),
    Column("bound", number=True),
    Column("elsewhere", essential=False, number=True),
    Column("submitted", number=True),
    Column("mean", essential=False, number=True),
    Column("task queue", essential=False),
)
"""The numbers of P3, P4 and E4: jobs, waiting pilots, requested pilots (``target``), most pilots that may
wait (``bound``), jobs that wait at other queues, new pilots, and the mean of P3."""

TRANSFER_SHARES = (
    Column("share"),
    Column("priority", number=True),
    Column("held", number=True),
    Column("queued", number=True),
    Column("blocked", number=True),
    Column("entitled", number=True),
    Column("given", number=True),
    Column("emergency", number=True),
)
"""The numbers of D3 to D5: slots that a share holds, needs, may get and gets; blocked transfers; emergency
slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """The plan for ``jobs`` jobs of a task: its analysis, and ``lines`` of text.

    ``index`` counts from 0. The choices number the planned tasks from 1.
    """

    index: int
    name: str
    jobs: int
    choices: tuple[Choice, ...]
    explanations: tuple[Explanation, ...]
    lines: tuple[str, ...]

    @classmethod
    def of(
        cls,
        index: int,
        name: str,
        jobs: int,
        choices: Sequence[Choice],
        width: int = 0,
        *,
        warnings: Sequence[str] = (),
    ) -> "PlannedTask":
        """Return these choices, explained in lines of at most ``width`` columns, after any warnings."""
        return cls(
            index=index,
            name=name,
            jobs=jobs,
            choices=tuple(choices),
            explanations=tuple(explain(choice) for choice in choices),
            lines=tuple(folded([*warnings, *of_planned(name, choices)], width)),
        )


def of_decision(decision: Decision, world: World, idle: Sequence[str], width: int = 0) -> list[str]:
    """Return the decision's changes, the numbers behind them, and each choice explained.

    ``idle`` lists the reasons if the step changes nothing.
    """
    queues, heads = {"job": _queues(world.jobs), "pilot": _queues(world.pilots)}, Heads(world.jobs)
    if changes := decision.of_records:
        rows = [
            row
            for change in changes
            for row in (
                _taken_jobs(change, heads)
                if isinstance(change, ClaimRequest | BorrowRequest)
                else [_row(change, queues)]
            )
        ]
        text = table(CHANGES, rows, width)
    else:
        reason = "; ".join(idle)
        text = [
            f"The step {decision.step} changes nothing in this world" + (f": {reason}." if reason else ".")
        ]
    for task, reason in decision.notes.get("set_aside", {}).items():
        text.append(
            f"Task {task} is set aside: it {reason}."
            if reason.startswith("needs")
            else f"Task {task}: {reason}."
        )
    if wants := decision.notes.get("task_queues"):
        text += ["", *table(TASK_QUEUES, [_want(want) for want in wants], width)]
    for stay in decision.notes.get("stays", ()):
        text.append(f"A pilot at {stay['queue']} without work {stays(stay['seconds'], stay['wait'])}.")
    for queue in TRANSFER_QUEUES:
        if (account := decision.notes.get(queue.name)) and account["shares"]:
            text += ["", *_transfer_shares(queue, account, world, width)]
    for choice in decision.choices:
        text += lines(explain(choice))
    return folded(text, width)


def _row(change: Move | Create | Touch | Forget, queues: Mapping[str, Mapping[int, str]]) -> tuple[Any, ...]:
    match change:
        case Move():
            went = f"{change.source} to {change.target}"
            return *_changed_row(change, went, queues), change.changes.get("pilot", ""), change.cause
        case Touch():
            return *_changed_row(change, f"set {', '.join(change.changes)}", queues), "", ""
        case Create():
            kinds = sorted({type(record).__name__.removeprefix("New").lower() for record in change.records})
            queue = _common_queue({record.queue for record in change.records if isinstance(record, NewPilot)})
            return len(change.records), ", ".join(kinds), "", "created", queue, "", change.cause
        case Forget():
            return len(change.replicas), "replica", "", "forgotten", "", "", ""


def _taken_jobs(request: ClaimRequest | BorrowRequest, heads: Heads) -> Iterator[tuple[Any, ...]]:
    """Yield the table's rows for a match now: the jobs that the pilot would get, or else its heartbeat."""
    if isinstance(request, BorrowRequest):
        kinds = [(candidate.state, candidate.borrowing.binding) for candidate in request.jobs[: request.most]]
        for state, binding in dict.fromkeys(kinds):
            ids = [
                candidate.borrowing.job
                for candidate, kind in zip(request.jobs, kinds, strict=False)
                if kind == (state, binding)
            ]
            yield (
                len(ids),
                "job",
                shortened(ids),
                f"{state} to sent",
                request.queue,
                request.pilot,
                CAUSES[binding],
            )
        return
    jobs = sum(head.jobs for head in request.heads)
    ids = [job.id for job in heads.take(request)]
    if jobs:
        yield jobs, "job", shortened(ids), "activated to sent", request.queue, request.pilot, CAUSE
    else:
        yield 1, "pilot", shortened([request.pilot]), "set heartbeat", request.queue, "", ""


def _changed_row(
    change: Move | Touch, description: str, queues: Mapping[str, Mapping[int, str]]
) -> tuple[Any, ...]:
    by_id = queues.get(change.kind, {})
    queue = change.changes.get("queue") or _common_queue({by_id.get(id_, "") for id_ in change.ids})
    return len(change.ids), change.kind, shortened(change.ids), description, queue


def _want(want: Mapping[str, Any]) -> tuple[Any, ...]:
    requirements = Requirements.from_text(want["requirements"])
    parts = (
        requirements.owner,
        requirements.vo,
        f"{requirements.cores} cores" if requirements.cores != 1 else "1 core",
        f"{requirements.memory:g} MB" if requirements.memory else "",
        f"{requirements.cpu_time:g} s",
    )
    numbers = (want[name] for name in ("jobs", "waiting", "target", "bound", "elsewhere", "submitted"))
    return want["queue"], *numbers, f"{want['mean']:.3g}", ", ".join(part for part in parts if part)


def _transfer_shares(queue: TransferQueue, account: Mapping[str, Any], world: World, width: int) -> list[str]:
    """Return a queue's shares with their slots, and why transfers of each wait."""
    slots, in_use, shares = account["slots"], account["held"], account["shares"]
    started = sum(share["started"] for share in shares.values())
    emergencies_by_share = Counter(
        transfer.share
        for transfer in world.transfers
        if transfer.emergency and transfer.state is queue.holding
    )
    emergencies = max(0, in_use - slots) + sum(share["emergency"] for share in shares.values())
    head = f"{queue.name}: {plural(slots, 'slot')}, {in_use} in use, {started} given now"
    head += f"; {emergencies} beyond them in emergency" if emergencies else ""
    if "bound" in account:
        head += f"; {account['prepared']} of {account['bound']} prepared ahead of their delivery"
    if account.get("passing"):
        head += f", which {account['passing']} pass"
    columns = ("priority", "held", "queued", "blocked", "entitled", "started")
    rows = [
        (name, *(share[column] for column in columns), share["emergency"] + emergencies_by_share[name])
        for name, share in shares.items()
    ]
    waits = [f"  {name}: {wait}" for name in shares if (wait := _waits(name, account))]
    return [head, *table(TRANSFER_SHARES, rows, width), *waits]


def _waits(name: str, account: Mapping[str, Any]) -> str:
    """Return why transfers of a share wait; empty if all waiting ones get a slot."""
    share = account["shares"][name]
    waiting = share["queued"] - share["started"] - share["emergency"]
    slots = share["held"] + share["started"]
    parts = []
    if waiting and account.get("prepared", 0) >= account.get("bound", 1):
        parts = [f"{waiting} wait until prepared transfers are delivered"]
    elif waiting and slots >= share["entitled"] > 0:
        parts = [f"{waiting} wait behind its own, in all slots that it is entitled to"]
    elif waiting:
        holders = [
            holder
            for holder, numbers in account["shares"].items()
            if holder != name and numbers["held"] + numbers["started"] > 0
        ]
        parts = [f"{waiting} wait for a slot of {few(holders)}" if holders else f"{waiting} wait for room"]
    if share["blocked"]:
        parts.append(f"{share['blocked']} wait for a storage or link that is full or fails")
    return "; ".join(parts)


def _queues(records: Iterable[Any]) -> dict[int, str]:
    return {record.id: record.queue for record in records}


def _common_queue(names: set[str]) -> str:
    """Return the queue if there is only one, else nothing."""
    return names.pop() if len(names) == 1 else ""
