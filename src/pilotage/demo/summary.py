"""Results per queue: jobs, moved files, and how long jobs waited and ran."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rich.table import Table

from pilotage.model.records.federation import Queue

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """One queue: its jobs, the files moved to and from its storage, and mean times in s."""

    queue: str
    jobs: int
    files_in: int
    files_out: int
    waiting: float | None
    running: float | None


def by_queue(
    queues: Sequence[Queue], jobs: Iterable[Document], transfers: Iterable[Document]
) -> list[QueueSummary]:
    """Return a row per queue. If queues share a storage, its transfers count at the first queue with jobs."""
    at: dict[str, list[Document]] = defaultdict(list)
    for job in jobs:
        at[job["queue"]].append(job)
    inwards, outwards = _moved(transfers)
    return [
        QueueSummary(
            queue=queue.name,
            jobs=len(at[queue.name]),
            files_in=inwards.pop(queue.storage, 0) if at[queue.name] else 0,
            files_out=outwards.pop(queue.storage, 0) if at[queue.name] else 0,
            waiting=_mean(job["started"] - job["created"] for job in at[queue.name] if job["started"]),
            running=_mean(job["wall_seconds"] for job in at[queue.name] if job["wall_seconds"] is not None),
        )
        for queue in queues
    ]


def _moved(transfers: Iterable[Document]) -> tuple[dict[str, int], dict[str, int]]:
    inwards: dict[str, int] = defaultdict(int)
    outwards: dict[str, int] = defaultdict(int)
    for transfer in transfers:
        if transfer["direction"] == "download":
            inwards[transfer["destination"]] += 1
        else:
            outwards[transfer["source"]] += 1
    return inwards, outwards


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return fmean(numbers) if numbers else None


def table(rows: Sequence[QueueSummary]) -> Table:
    """Return the rows as a table for the terminal."""
    result = Table(box=None, pad_edge=False)
    result.add_column("queue")
    for name in ("jobs", "files in", "files out", "mean waiting", "mean running"):
        result.add_column(name, justify="right")
    for row in rows:
        times = ["–" if value is None else f"{value:.1f} s" for value in (row.waiting, row.running)]
        result.add_row(row.queue, str(row.jobs), str(row.files_in), str(row.files_out), *times)
    return result
