"""Results that wait in sites' spools, in words."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pilotage.model.records.waiting_results import WaitingResults
from pilotage.model.values.phrases import duration, plural


def of(waiting: Iterable[WaitingResults], now: float) -> Iterator[str]:
    """Yield a line for the results at each queue: how many, for how long, and why they still wait."""
    by_queue: dict[str, list[WaitingResults]] = defaultdict(list)
    for one in waiting:
        by_queue[one.queue].append(one)
    for queue, alike in sorted(by_queue.items()):
        size = sum(one.size for one in alike) / 1e6
        since = duration(now - min(one.since for one in alike))
        problem = next((one.problem for one in alike if one.problem), "a server takes them from there")
        yield (
            f"results of {plural(len(alike), 'job')} ({size:.3g} MB) wait in the spool of queue {queue}, "
            f"where their pilots left them; seen for {since}: {problem}"
        )
