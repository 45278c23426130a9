"""Samples of running and finished jobs: what the lines of the page show over a day."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pilotage.store import NoFederation, Store, WorkCounts, WorkNow, WorkOf, WorkSample
from pilotage.store.jobs.work_quarters import QUARTER

_NONE = WorkNow(0, 0)


class WorkRecorder:
    """Adds a sample at each call. Jobs that finished are the difference to the sample before it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: WorkCounts | None = None
        self._time = 0.0

    def record(self, now: float) -> None:
        """Add a sample of a time (s since 1970)."""
        # After a pause another server may have counted what finished: begin again.
        last = self._last if now - self._time <= QUARTER else None
        newest = max(last.tasks, default=0) if last else None
        counts = self._store.past.work_counts(newest, last.tasks if last else ())
        self._store.past.add_work([*_samples(counts, last or counts, self._sites())], now)
        self._last, self._time = counts, now

    def _sites(self) -> Mapping[str, str]:
        try:
            return {queue.name: queue.site for queue in self._store.federation().queues}
        except NoFederation:
            return {}


def _samples(now: WorkCounts, before: WorkCounts, sites: Mapping[str, str]) -> Iterator[WorkSample]:
    """Yield samples of all work, of sites, VOs, persons and tasks. Those without running or finished jobs are
    left out."""
    counts: defaultdict[tuple[WorkOf, str], WorkNow] = defaultdict(lambda: _NONE)
    queue_counts = {queue: _since(count, before.queues.get(queue)) for queue, count in now.queues.items()}
    task_counts = {number: _since(count, before.tasks.get(number)) for number, count in now.tasks.items()}
    whole = _NONE
    for queue, count in queue_counts.items():
        whole = _sum(whole, count)
        if site := sites.get(queue):
            counts["site", site] = _sum(counts["site", site], count)
    for number, count in task_counts.items():
        vo, owner = now.owners[number]
        of_task: tuple[tuple[WorkOf, str], ...] = (
            ("vo", vo),
            ("person", f"{vo}:{owner}"),
            ("task", str(number)),
        )
        for key in of_task:
            counts[key] = _sum(counts[key], count)
    yield WorkSample(kind="all", running=whole.running, done=whole.done)
    for (kind, name), count in counts.items():
        if any(count):
            yield WorkSample(kind=kind, name=name, running=count.running, done=count.done)


def _since(count: WorkNow, before: WorkNow | None) -> WorkNow:
    return WorkNow(count.running, max(count.done - (before or _NONE).done, 0))


def _sum(one: WorkNow, other: WorkNow) -> WorkNow:
    return WorkNow(one.running + other.running, one.done + other.done)
