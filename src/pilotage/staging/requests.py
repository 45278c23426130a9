"""What brokered jobs need at their queue's storage is asked for as downloads."""

from collections import defaultdict
from dataclasses import dataclass, field, replace

from pilotage.model.decision import Change, Creation, Decision, Move
from pilotage.model.sources import Sources
from pilotage.model.states import JobState
from pilotage.model.transfers import share_of, transfer_priority
from pilotage.model.work import Job, NewTransfer, Task
from pilotage.model.world import World


def with_downloads(world: World, decision: Decision) -> Decision:
    """The decision of a brokerage with the transfers that its placements need (D1, D2).

    Every job that goes DEFINED->ASSIGNED carries one download for each input that is not at its queue's
    storage, from the best source; a transfer that is under way already is not made twice at commit. Each
    job of several that read one file carries it: any of them may be handed back.
    A job with an input that no storage can give now would wait for nothing: it goes to PENDING for
    ``pending_time`` instead, and its error says which file.
    """
    downloads = _Downloads(world)
    changes: list[Change] = []
    for change in decision.changes:
        brokered = isinstance(change, Move) and change.kind == "job" and change.target is JobState.ASSIGNED
        if brokered and isinstance(change, Move) and change.source is JobState.DEFINED:
            changes += downloads.of_move(change)
        else:
            changes.append(change)
    return replace(decision, changes=tuple(changes))


@dataclass(slots=True)
class _Downloads:
    world: World
    sources: Sources = field(init=False)
    jobs: dict[int, Job] = field(init=False)
    tasks: dict[int, Task] = field(init=False)
    storages: dict[str, str] = field(init=False)
    holders: dict[str, set[str]] = field(init=False)
    made: dict[tuple[int, str, str], NewTransfer] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.sources = Sources(self.world.federation)
        self.jobs = {job.id: job for job in self.world.jobs}
        self.tasks = {task.id: task for task in self.world.tasks}
        self.storages = {queue.name: queue.storage for queue in self.world.federation.queues}
        self.holders = defaultdict(set)
        for replica in self.world.replicas:
            self.holders[replica.file].add(replica.storage)

    def of_move(self, move: Move) -> list[Move]:
        """The move with its downloads, and a move to PENDING for each file that no storage can give."""
        storage = self.storages[str(move.changes["queue"])]
        creates: dict[int, tuple[Creation, ...]] = dict(move.creates)
        without: dict[str, list[int]] = defaultdict(list)
        for number in move.ids:
            job = self.jobs[number]
            missing = [name for name in dict.fromkeys(job.inputs) if storage not in self.holders[name]]
            lost = next((name for name in missing if not self._from(name, storage)), None)
            if lost is None:
                wanted = tuple(self._download(job, name, storage) for name in missing)
                creates[number] = creates.get(number, ()) + wanted
            else:
                without[lost].append(number)
        waiting = {number for numbers in without.values() for number in numbers}
        moves = [_without(move, waiting, creates)] if len(waiting) < len(move.ids) else []
        return moves + [self._pending(move, numbers, name) for name, numbers in sorted(without.items())]

    def _from(self, name: str, storage: str) -> tuple[str, ...]:
        return self.sources.ranked(self.holders[name], storage)

    def _download(self, job: Job, name: str, storage: str) -> NewTransfer:
        key = (job.task, name, storage)
        if key not in self.made:
            task, constants = self.tasks[job.task], self.world.federation.staging
            share = share_of(task.owner, "download", constants)
            self.made[key] = NewTransfer(
                file=name,
                source=self._from(name, storage)[0],
                destination=storage,
                direction="download",
                share=share,
                priority=transfer_priority(share, task.spec.transfer_priority, constants),
            )
        return self.made[key]

    def _pending(self, move: Move, numbers: list[int], name: str) -> Move:
        held = ", ".join(sorted(self.holders[name])) or "no storage"
        return Move(
            kind="job",
            ids=tuple(numbers),
            attempts=_attempts(move, set(numbers)),
            source=JobState.DEFINED,
            target=JobState.PENDING,
            cause="an input cannot be brought to the queue",
            changes={
                "wake_at": self.world.time + self.world.federation.brokerage.pending_time,
                "error": f"input {name} cannot be read from anywhere: held by {held}",
            },
            choice=move.choice,
        )


def _attempts(move: Move, wanted: set[int]) -> tuple[int, ...] | None:
    if move.attempts is None:
        return None
    return tuple(attempt for number, attempt in zip(move.ids, move.attempts, strict=True) if number in wanted)


def _without(move: Move, left_out: set[int], creates: dict[int, tuple[Creation, ...]]) -> Move:
    kept = tuple(number for number in move.ids if number not in left_out)
    made = {number: records for number, records in creates.items() if records and number not in left_out}
    return replace(move, ids=kept, attempts=_attempts(move, set(kept)), creates=made)
