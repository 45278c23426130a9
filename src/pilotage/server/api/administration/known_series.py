"""Series that are known before anything happened.

Counters begin at 0: ``rate`` and ``increase`` see the first failure only if a zero came before it. The last
pass of a loop begins at the first federation: so the alert fires for a loop that never ends a pass.
"""

from collections.abc import Iterable, Iterator, Sequence

from pilotage.model.records.federation import Federation
from pilotage.model.records.measurements import (
    ATTEMPTS,
    EMPTY_PILOTS,
    ENDED_PILOTS,
    ENDED_TRANSFERS,
    FAILED_PASSES,
    LAST_PASS,
    REQUESTS,
    STORE_RETRIES,
)
from pilotage.model.records.states import JobState, PilotState, TransferState
from pilotage.store import HINDRANCES, MeasuredKey, StoreCounts

SERVER_FAULT = "500"
"""The status of an answer for which the server is at fault."""


def known_series(
    counts: StoreCounts, federation: Federation | None, loops: Sequence[str]
) -> dict[MeasuredKey, float]:
    """Return how series begin, by known values: loop, queue, share, link and route."""
    series = {MeasuredKey(STORE_RETRIES.name, (cause,), "") for cause in HINDRANCES}
    series |= {MeasuredKey(FAILED_PASSES.name, (loop,), "") for loop in loops}
    series |= set(_of_work(counts))
    for queue in federation.queues if federation else ():
        series.add(MeasuredKey(EMPTY_PILOTS.name, (queue.name,), ""))
        ends = (PilotState.FINISHED, PilotState.FAILED)
        series |= {MeasuredKey(ENDED_PILOTS.name, (queue.name, str(end)), "") for end in ends}
    passes: dict[MeasuredKey, float] = {}
    if counts.first_federation is not None:
        passes = dict.fromkeys(
            (MeasuredKey(LAST_PASS, (loop,), "") for loop in loops), counts.first_federation
        )
    return dict.fromkeys(series, 0.0) | passes


def _of_work(counts: StoreCounts) -> Iterator[MeasuredKey]:
    for queue, share, _ in counts.jobs:
        if queue:
            yield from _each(ATTEMPTS.name, (queue, share), (JobState.FINISHED, JobState.FAILED))
    for source, destination, *_ in counts.transfers:
        ends = (TransferState.DONE, TransferState.FAILED, "retried")
        yield from _each(ENDED_TRANSFERS.name, (source, destination), ends)
    for key in counts.measured:
        if key.name == REQUESTS.name:
            yield from _each(REQUESTS.name, key.labels[:2], (SERVER_FAULT,))


def _each(name: str, labels: Sequence[str], states: Iterable[str]) -> Iterator[MeasuredKey]:
    for state in states:
        yield MeasuredKey(name, (*labels, str(state)), "")
