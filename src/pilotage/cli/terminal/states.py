"""States of tasks and jobs as people see them, or with ``--verbose`` as the engine has them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from pilotage.cli.terminal.output import ago, counts
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.rules.plain_states import (
    PlainWord,
    clause,
    job_state,
    jobs_phrase,
    task_sentence,
    task_state,
    with_age,
)

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the states that the engine uses.")]


TaskStateName = StrEnum("TaskStateName", sorted({*map(str, PlainWord), *map(str, TaskState)}))  # type: ignore[misc]
"""What people may call a state of tasks."""

JobStateName = StrEnum("JobStateName", sorted({*map(str, PlainWord), *map(str, JobState)}))  # type: ignore[misc]
"""What people may call a state of jobs: a word, or a state of the engine."""


def state_query(state: str | None) -> dict[str, str]:
    """Return the parameters of a list of tasks or jobs in this state: a word comes first."""
    return {} if state is None else {"word" if state in [*PlainWord] else "state": str(state)}


def state_of_task(view: Mapping[str, Any], verbose: bool = False) -> str:
    """Return the state of a task."""
    if not verbose:
        return str(task_state(view["state"], view["jobs"], view.get("held")))
    return f"{view['state']}, held" if view.get("held") else str(view["state"])


def word_of_task(view: Mapping[str, Any]) -> str:
    """Return the word of a task, without what it waits for."""
    return task_state(view["state"], view["jobs"], view.get("held")).word


def clause_of_task(view: Mapping[str, Any]) -> str:
    """Return ``is waiting for a slot``, or ``failed``."""
    return clause(task_state(view["state"], view["jobs"], view.get("held")))


def line_of_task(view: Mapping[str, Any]) -> str:
    """Return ``task 12 count is running: 2 running, 1 done``."""
    return task_sentence(f"task {view['id']} {view['name']}", view["state"], view["jobs"], view.get("held"))


def task_with_age(view: Mapping[str, Any], verbose: bool = False) -> str:
    """Return the state of a task, and how long ago it ended."""
    age = ago(view["since"])
    if verbose:
        return f"{state_of_task(view, verbose)} for {age}"
    return with_age(task_state(view["state"], view["jobs"], view.get("held")), age)


def state_of_job(job: Mapping[str, Any], verbose: bool = False) -> str:
    """Return the state of a job."""
    return str(job["state"]) if verbose else str(job_state(job["state"]))


def jobs_by_state(jobs: Mapping[str, int], verbose: bool = False) -> str:
    """Return the number of jobs in each state."""
    return counts(jobs) if verbose else jobs_phrase(jobs)
