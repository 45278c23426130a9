"""How often the likely end that ``status`` tells holds: simulated scenarios, each task asked as it goes on.

Run ``python -m benchmarks.likely_ends SCENARIO.yaml...`` from the root. A prediction holds if the task ended
within its interval.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pilotage.flow.calls.work.remarks import end_of
from pilotage.model.records.states import ENDED, TaskState
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.reading import Case, read
from pilotage.simulation.simulation import Simulation
from pilotage.simulation.submissions import submissions
from pilotage.store import TaskPage

ASKED_AFTER = 1800.0
"""Seconds between two predictions for each task."""

MOST = 200
"""Most tasks asked at a time."""

Told = tuple[int, float, float]
"""A task, and its interval in s since 1970."""


def predictions(case: Case, seed: int) -> Iterator[tuple[float, float, float]]:
    """Simulate a case. Yield the interval of each prediction, and when the task finished."""
    simulation = Simulation(case.federation, case.scenario, seed)
    told: list[Told] = []
    work = submissions(case, seed)

    def arrive(one: SimulatedTask) -> None:
        simulation.submit(one)

    def ask() -> None:
        told.extend(_asked(simulation))
        simulation.clock.after(ASKED_AFTER, ask)

    for one in work:
        simulation.clock.after(one.at, partial(arrive, one))
    simulation.clock.after(ASKED_AFTER, ask)
    try:
        simulation.run(case.scenario.limit, until=lambda: simulation.has_ended(len(work)))
        for task, earliest, latest in told:
            found = simulation.store.queries.task(task)
            if found is not None and found.state in ENDED["task"]:
                yield earliest, latest, found.since
    finally:
        simulation.close()


def _asked(simulation: Simulation) -> Iterator[Told]:
    now, store = simulation.clock(), simulation.store
    for view in store.task_lists.page(TaskPage(state=TaskState.RUNNING, limit=MOST)):
        task = store.queries.task(view.id)
        assert task is not None
        ahead = store.job_lists.ahead(task.share, task.priority, task.id)[1]
        if end := end_of(simulation.runtime, task, ahead):
            yield task.id, now + end.earliest, now + end.latest


def main() -> None:
    """Print the share of ends inside, too early and too late, for each scenario."""
    for path in sys.argv[1:]:
        found = list(predictions(read(Path(path)), 1))
        early = sum(end < earliest for earliest, _, end in found)
        late = sum(end > latest for _, latest, end in found)
        inside = (len(found) - early - late) / max(1, len(found))
        print(f"{path}: {len(found)} predictions, {inside:.0%} inside, {early} ended before, {late} after")


if __name__ == "__main__":
    main()
