"""Outcomes of jobs and tasks at the end of a simulation: finished ones with their times, lost ones, and
the rest."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from sqlalchemy import Select, func, select

from pilotage.explain.analysis import obstacles
from pilotage.flow.steps.broker import place, plugins
from pilotage.model.records.states import ENDED, JobState, TaskState
from pilotage.model.values.types import DESCRIBED
from pilotage.simulation.simulation import BEGIN, Simulation
from pilotage.store import Pass
from pilotage.store.jobs.table import is_live, jobs
from pilotage.store.tasks.table import tasks
from pilotage.store.worlds.broker_facts import OF_JOBS, OF_PLACES, waiting_jobs

_LOST = frozenset(ENDED["job"]) - {JobState.FINISHED}


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of a simulation. Times are in s since its beginning."""

    tasks: Mapping[int, int]
    """The task of each job that was made and is not lost, without merge jobs."""
    lost: int
    unfinished: int
    finished: tuple[float, ...]
    """Times when jobs finished, in order."""
    ends: Mapping[int, float]
    """Times when tasks finished. Other tasks have no entry."""

    @property
    def jobs(self) -> int:
        """Return the number of all jobs, made or not."""
        return len(self.finished) + self.lost + self.unfinished

    def needed(self, part: float, planned: int) -> int:
        """Return how many planned jobs must have finished for that fraction of all jobs."""
        return ceil(part * self.jobs) - (self.jobs - planned)

    def done(self, part: float) -> float | None:
        """Return when that fraction of all jobs had finished; None if fewer finished."""
        needed = ceil(part * self.jobs)
        return self.finished[needed - 1] if 0 < needed <= len(self.finished) else None


def outcomes(simulation: Simulation) -> Outcomes:
    """Collect the outcomes of jobs and tasks.

    Jobs that a task never made count as lost if it failed, else as unfinished.
    """
    job_rows = _rows(simulation, select(jobs.c.id, jobs.c.task, jobs.c.kind, jobs.c.state, jobs.c.since))
    task_rows = _rows(simulation, select(tasks.c.id, tasks.c.state, tasks.c.since))
    states = Counter(state for *_, state, _ in job_rows)
    made_jobs = Counter(task for _, task, kind, *_ in job_rows if kind != "merge")
    for task, state, _ in task_rows:
        # A task may make more jobs than planned: another job replaces each failed scout.
        missing = max(0, simulation.payloads.tasks[task].spec.planned_jobs - made_jobs[task])
        states[JobState.FAILED if state in ENDED["task"] else JobState.PENDING] += missing
    return Outcomes(
        tasks={job: task for job, task, kind, state, _ in job_rows if kind != "merge" and state not in _LOST},
        lost=sum(states[state] for state in _LOST),
        unfinished=sum(count for state, count in states.items() if state not in ENDED["job"]),
        finished=tuple(sorted(since - BEGIN for *_, state, since in job_rows if state == JobState.FINISHED)),
        ends={task: since - BEGIN for task, state, since in task_rows if state == TaskState.FINISHED},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unended:
    """Jobs that existed and had not ended at the end of the simulation."""

    __pydantic_config__ = DESCRIBED

    states: Mapping[str, int]
    """The number of jobs in each state."""
    refused: Mapping[str, int]
    """The number of pending jobs that fit no queue, by the first check in their way."""

    def __str__(self) -> str:
        text = ", ".join(f"{count} {state}" for state, count in self.states.items())
        refused = ", ".join(f"{count} by {check}" for check, count in self.refused.items())
        return f"{text}; refused {refused}" if refused else text


def unended(simulation: Simulation) -> Unended:
    """Count unended jobs by state, and pending ones by the check that refuses them; largest numbers first."""
    query = select(jobs.c.state, jobs.c.task, func.count()).where(is_live).group_by(jobs.c.state, jobs.c.task)
    states: Counter[str] = Counter()
    pending: dict[int, int] = {}
    for state, task, count in _rows(simulation, query.order_by(jobs.c.task)):
        states[str(state)] += count
        if state == JobState.PENDING:
            pending[task] = count
    checks = _refusing(simulation, pending)
    refused: Counter[str] = Counter()
    for task, count in pending.items():
        refused[checks.get(task, "no check")] += count
    return Unended(states=dict(states.most_common()), refused=dict(refused.most_common()))


def _refusing(simulation: Simulation, waiting: Iterable[int]) -> dict[int, str]:
    """Return the check that currently blocks each task's first pending job, if any does.

    The simulation does not store the reason from the time when the job became pending.
    """
    first = dict.fromkeys(waiting, 1)
    now = Pass(simulation.clock(), 0, len(first), portions=lambda _: first)
    read = simulation.store.snapshots.read(now, (waiting_jobs(JobState.PENDING), *OF_JOBS, *OF_PLACES))
    world = simulation.runtime.elements.reported(read)
    checks: dict[int, str] = {}
    for plugin in plugins(world):
        for choice in place(world, plugin, simulation.runtime.brokerages).choices:
            if standing := obstacles(choice.refusals):
                checks[choice.task] = f"{standing[0].rule} {standing[0].name}"
    return checks


def _rows(simulation: Simulation, query: Select[Any]) -> list[Any]:
    return simulation.store.database.read(lambda connection: list(connection.execute(query)))
