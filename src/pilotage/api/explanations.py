"""Stored decisions with their analysis and as lines of text."""

from collections.abc import Sequence

from pydantic import BaseModel

from pilotage.explain import history, rendering, usage
from pilotage.explain.analysis import Explanation, explain
from pilotage.explain.layout import folded
from pilotage.model.decision import DatedChoice
from pilotage.model.logs import Point
from pilotage.store import JobDetails, TaskDetails


class Explained(BaseModel):
    """Decisions newest first, the analysis of each, and all of it as ``lines`` of text."""

    choices: list[DatedChoice]
    explanations: list[Explanation]
    lines: list[str]


class TaskExplanation(Explained):
    """The reasons why a task's jobs went where they went, or nowhere."""

    task: TaskDetails


class JobExplanation(Explained):
    """The reasons why a job went where it went, or nowhere."""

    job: JobDetails


def explained_task(task: TaskDetails, choices: Sequence[DatedChoice], width: int) -> TaskExplanation:
    """The decisions about a task."""
    told = rendering.of_choices(choices)
    if not choices:
        told.append(f"task {task.id} is {task.state}: no brokerage has decided about it yet")
    return TaskExplanation.model_construct(
        task=task,
        choices=list(choices),
        explanations=[explain(choice) for choice in choices],
        lines=folded(told, width),
    )


def explained_job(
    job: JobDetails, choices: Sequence[DatedChoice], width: int, used: tuple[int, Sequence[Point]] = (0, ())
) -> JobExplanation:
    """The events of a job, what its last attempt ``used`` (number, time line), and the decisions about it."""
    told = [*history.of_job(job), *usage.of_attempt(*used), *rendering.of_choices(choices)]
    if not choices:
        told.append(f"job {job.id} is {job.state}: no brokerage has decided about it yet")
    return JobExplanation.model_construct(
        job=job,
        choices=list(choices),
        explanations=[explain(choice) for choice in choices],
        lines=folded(told, width),
    )
