"""A decision made from a saved world as lines of text: what would change, and why."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pilotage.model.decision import Choice, Create, Decision, Forget, Move, Touch
from pilotage.model.transfer_queues import TRANSFER_QUEUES
from pilotage.model.work import NewPilot, Requirements
from pilotage.model.world import World

from .analysis import Explanation, explain
from .layout import Heading, folded, table
from .pilots import stays
from .rendering import lines, of_planned
from .words import shortened

CHANGES = (
    Heading("records", number=True),
    Heading("kind"),
    Heading("ids"),
    Heading("change"),
    Heading("queue"),
    Heading("pilot", number=True),
    Heading("cause", essential=False),
)
TASK_QUEUES = (
    Heading("queue"),
    Heading("jobs", number=True),
    Heading("waiting", number=True),
    Heading("target", number=True),
    Heading("bound", number=True),
    Heading("elsewhere", essential=False, number=True),
    Heading("submitted", number=True),
    Heading("mean", essential=False, number=True),
    Heading("task queue", essential=False),
)
"""The numbers of P3, P4 and E4: pilots that wait, that were drawn, that may wait, those of them for jobs of
other queues, and those that are submitted."""

TRANSFER_SHARES = (
    Heading("share"),
    Heading("priority", number=True),
    Heading("held", number=True),
    Heading("queued", number=True),
    Heading("blocked", number=True),
    Heading("entitled", number=True),
    Heading("start now", number=True),
    Heading("emergency", number=True),
    Heading("waits", essential=False),
)
"""The account of D3 to D5: slots that a share has, needs, may have and is given; what its queue waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """The plan for ``jobs`` jobs of a task, analysed, and as ``lines`` of text.

    ``index`` counts the tasks asked about from 0; the choices name them from 1.
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
        """These choices, explained in lines of at most ``width`` columns, after what to be warned of."""
        return cls(
            index=index,
            name=name,
            jobs=jobs,
            choices=tuple(choices),
            explanations=tuple(explain(choice) for choice in choices),
            lines=tuple(folded([*warnings, *of_planned(name, choices)], width)),
        )


def of_decision(decision: Decision, world: World, idle: Sequence[str], width: int = 0) -> list[str]:
    """List the decision's changes, the numbers behind them, and each choice explained.

    ``idle`` says why the step changes nothing, where it does.
    """
    queues = {"job": _queues(world.jobs), "pilot": _queues(world.pilots)}
    if changes := decision.of_records:
        told = table(CHANGES, [_row(change, queues) for change in changes], width)
    else:
        why = "; ".join(idle)
        told = [f"The step {decision.step} changes nothing in this world" + (f": {why}." if why else ".")]
    if wants := decision.notes.get("task_queues"):
        told += ["", *table(TASK_QUEUES, [_want(want) for want in wants], width)]
    for one in decision.notes.get("stays", ()):
        told.append(f"A pilot at {one['queue']} without work {stays(one['seconds'], one['wait'])}.")
    for queue in TRANSFER_QUEUES:
        if (account := decision.notes.get(queue.name)) and account["shares"]:
            told += ["", *_transfer_shares(queue.name, account, width)]
    for choice in decision.choices:
        told += lines(explain(choice))
    return folded(told, width)


def _row(change: Move | Create | Touch | Forget, queues: Mapping[str, Mapping[int, str]]) -> tuple[Any, ...]:
    match change:
        case Move():
            went = f"{change.source} to {change.target}"
            return *_moved(change, went, queues), change.changes.get("pilot", ""), change.cause
        case Touch():
            return *_moved(change, f"set {', '.join(change.changes)}", queues), "", ""
        case Create():
            kinds = sorted({type(record).__name__.removeprefix("New").lower() for record in change.records})
            own = _one({record.queue for record in change.records if isinstance(record, NewPilot)})
            return len(change.records), ", ".join(kinds), "", "created", own, "", change.cause
        case Forget():
            return len(change.replicas), "replica", "", "forgotten", "", "", ""


def _moved(change: Move | Touch, what: str, queues: Mapping[str, Mapping[int, str]]) -> tuple[Any, ...]:
    known = queues.get(change.kind, {})
    queue = change.changes.get("queue") or _one({known.get(id_, "") for id_ in change.ids})
    return len(change.ids), change.kind, shortened(change.ids), what, queue


def _want(want: Mapping[str, Any]) -> tuple[Any, ...]:
    wanted = Requirements.from_text(want["requirements"])
    parts = (
        wanted.owner,
        wanted.vo,
        f"{wanted.cores} cores" if wanted.cores != 1 else "1 core",
        f"{wanted.memory:g} MB" if wanted.memory else "",
        f"{wanted.cpu_time:g} s",
    )
    numbers = (want[name] for name in ("jobs", "waiting", "target", "bound", "elsewhere", "submitted"))
    return want["queue"], *numbers, f"{want['mean']:.3g}", ", ".join(part for part in parts if part)


def _transfer_shares(queue: str, account: Mapping[str, Any], width: int) -> list[str]:
    """List the shares of a queue with their slots, and what each that still has some waiting waits behind."""
    slots, held, shares = account["slots"], account["held"], account["shares"]
    started = sum(share["started"] for share in shares.values())
    emergencies = sum(share["emergency"] for share in shares.values())
    beyond = max(0, held - slots) + emergencies
    head = f"{queue}: {slots} slots, {held} in use, {started} given now; {beyond} beyond them in emergency"
    if "bound" in account:
        head += f"; {account['prepared']} of {account['bound']} prepared ahead of their delivery"
    if account.get("passing"):
        head += f", which {account['passing']} pass (D11)"
    holders = [name for name, share in shares.items() if share["held"] + share["started"] > 0]
    rows = [_transfer_share(name, share, holders) for name, share in shares.items()]
    return [head, *table(TRANSFER_SHARES, rows, width)]


def _transfer_share(name: str, share: Mapping[str, int], holders: Sequence[str]) -> tuple[Any, ...]:
    names = ("priority", "held", "queued", "blocked", "entitled", "started", "emergency")
    left = share["queued"] - share["started"] - share["emergency"]
    held = share["held"] + share["started"]
    waits = ""
    if left and held >= share["entitled"]:
        waits = f"{left} behind its own part of the slots"
    elif left:
        others = ", ".join(other for other in holders if other != name)
        waits = f"{left} until a slot of {others} is free" if others else f"{left} for room"
    elif share["blocked"]:
        waits = "for a storage or link that is full"
    return name, *(share[one] for one in names), waits


def _queues(records: Iterable[Any]) -> dict[int, str]:
    return {record.id: record.queue for record in records}


def _one(names: set[str]) -> str:
    """The queue that all have in common."""
    return names.pop() if len(names) == 1 else ""
