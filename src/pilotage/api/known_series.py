"""Series that are known before anything happened: their counters begin at 0.

``rate`` and ``increase`` see the first failure only if a zero came before it.
"""

from collections.abc import Iterable, Iterator, Sequence

from pilotage.model.records.federation import Federation
from pilotage.model.records.measurements import (
    ATTEMPTS,
    EMPTY_PILOTS,
    ENDED_PILOTS,
    ENDED_TRANSFERS,
    FAILED_PASSES,
    REQUESTS,
    STORE_RETRIES,
)
from pilotage.model.records.states import JobState, PilotState, TransferState
from pilotage.store import HINDRANCES, MeasuredKey, StoreCounts

SERVER_FAULT = "500"
"""The status of an answer for which the server is at fault."""


def known_series(found: StoreCounts, federation: Federation | None, loops: Iterable[str]) -> set[MeasuredKey]:
    """Return the counters that begin at 0, by known values: loop, queue, share, link and route."""
    series = {MeasuredKey(STORE_RETRIES.name, (cause,), "") for cause in HINDRANCES}
    series |= {MeasuredKey(FAILED_PASSES.name, (loop,), "") for loop in loops}
    series |= set(_of_work(found))
    for queue in federation.queues if federation else ():
        series.add(MeasuredKey(EMPTY_PILOTS.name, (queue.name,), ""))
        ends = (PilotState.FINISHED, PilotState.FAILED)
        series |= {MeasuredKey(ENDED_PILOTS.name, (queue.name, str(end)), "") for end in ends}
    return series


def _of_work(found: StoreCounts) -> Iterator[MeasuredKey]:
    for queue, share, _ in found.jobs:
        if queue:
            yield from _each(ATTEMPTS.name, (queue, share), (JobState.FINISHED, JobState.FAILED))
    for source, destination, *_ in found.transfers:
        ends = (TransferState.DONE, TransferState.FAILED, "retried")
        yield from _each(ENDED_TRANSFERS.name, (source, destination), ends)
    for key in found.measured:
        if key.name == REQUESTS.name:
            yield from _each(REQUESTS.name, key.labels[:2], (SERVER_FAULT,))


def _each(name: str, labels: Sequence[str], states: Iterable[str]) -> Iterator[MeasuredKey]:
    for state in states:
        yield MeasuredKey(name, (*labels, str(state)), "")
