"""One job: its states and attempts, its output, its files, and the decision behind its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.model.records.failures import FailedAttempt
from pilotage.model.records.states import AT_A_PILOT, ENDED, JOBS_NOT_STARTED, JobState
from pilotage.model.records.work import FileOfJob
from pilotage.server.api.work.jobs import explained, read_logs, visible_job
from pilotage.server.api.work.logs import KeptLogs
from pilotage.server.web.action_model import ActionLink
from pilotage.server.web.drawing import TimeSpan
from pilotage.server.web.pages import LogOf, Page, Staleness, Visit, command, view
from pilotage.store import EventView, JobDetails

DECISIONS = 3
"""Decisions that a page explains."""

TABS: Sequence[tuple[str, str]] = (("Life", ""), ("Log", "/log"), ("Files", "/files"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobModel:
    """What each tab of a job shows above its own part."""

    job: JobDetails
    task_name: str
    is_another_attempt: bool
    """Whether its exit code and error are of an attempt before the present one."""
    verbs: Sequence[ActionLink]
    tabs: Sequence[tuple[str, str]]
    tab: str
    done: str
    part: object


def _page(
    visit: Visit, tab: str, part: object, job: JobDetails, log: LogOf | None = None, **page_fields: Any
) -> Page:
    task = visit.store.queries.task(job.task)
    model = JobModel(
        job=job,
        task_name=task.name if task else "",
        is_another_attempt=job.state in (*JOBS_NOT_STARTED, *AT_A_PILOT),
        verbs=verbs(job),
        tabs=TABS,
        tab=tab,
        done=visit.done,
        part=part,
    )
    has_ended = job.state in ENDED["job"]
    return Page(
        template=f"job-{tab.lower()}.html",
        title=f"job {job.id} · {tab}",
        section="Tasks",
        model=model,
        stale=None if has_ended else Staleness(tasks=(job.task,), kinds=("job",), log=log),
        **page_fields,
    )


def verbs(job: JobDetails) -> list[ActionLink]:
    """Return what a person can do about a job now."""
    is_bad = job.state in (JobState.FAILED, JobState.CANCELLED, JobState.CLOSED)
    words = [
        ("Retry …", "retry", is_bad),
        ("Change …", "set", job.state in JOBS_NOT_STARTED),
        ("Cancel …", "cancel", job.state not in ENDED["job"] and job.state is not JobState.MERGING),
    ]
    return [ActionLink(label=label, address=f"/jobs/{job.id}/{verb}") for label, verb, can in words if can]


@dataclass(frozen=True, slots=True, kw_only=True)
class LifePart:
    """The time line of states, attempts, the newest first, and the explanation as text."""

    spans: Sequence[TimeSpan]
    attempts: Sequence["ShownAttempt"]
    lines: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttempt:
    """An attempt: its transitions, how long it has lasted in s, and its failure, if it failed."""

    number: int
    events: Sequence[EventView]
    seconds: float
    failure: FailedAttempt | None


def attempts(job: JobDetails, now: float) -> list[ShownAttempt]:
    """Return the attempts of a job with their transitions, both newest first."""
    events_by_attempt: dict[int, list[EventView]] = {}
    for event in job.events:
        events_by_attempt.setdefault(max(event.attempt, 1), []).append(event)
    failures = {failure.attempt: failure for failure in job.failed_attempts}
    shown, end = [], job.since if job.state in ENDED["job"] else now
    for number, events in sorted(events_by_attempt.items(), reverse=True):
        seconds = max(end - events[0].time, 0.0)
        shown.append(
            ShownAttempt(number=number, events=events[::-1], seconds=seconds, failure=failures.get(number))
        )
        end = events[0].time
    return shown


def life(visit: Visit) -> Page:
    """Show what happened to a job, and why it is where it is."""
    job = _find_job(visit)
    explanation = explained(visit.runtime, job, DECISIONS)
    part = LifePart(spans=spans(job, visit.now), attempts=attempts(job, visit.now), lines=explanation.lines)
    return _page(
        visit, "Life", part, job, json=f"/jobs/{job.id}/explain", command=command("explain", f"job:{job.id}")
    )


def spans(job: JobDetails, now: float) -> list[TimeSpan]:
    """Return the states of a job one after another, each with its start and end in s since 1970 UTC."""
    starts = [*job.events]
    ends = [*(event.time for event in starts[1:]), now]
    return [
        TimeSpan(str(event.target), event.time, max(event.time, end), event.cause)
        for event, end in zip(starts, ends, strict=True)
        if event.target not in ENDED["job"]
    ]


class JobLogQuery(BaseModel):
    """Which attempt's output is shown; 0: the latest."""

    attempt: Annotated[int, Field(ge=0, lt=2**31)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLogPart:
    """What an attempt wrote, by stream: its kept parts, and the bytes left out between them."""

    logs: KeptLogs
    gaps: Mapping[str, int]


def gaps_of(logs: KeptLogs) -> dict[str, int]:
    """Return the bytes of each stream that were not kept."""
    return {log.stream: log.size - sum(part.end - part.start for part in log.parts) for log in logs.logs}


def log(visit: Visit) -> Page:
    """Show what a job wrote; while it runs, as it comes."""
    job = _find_job(visit)
    query = visit.query(JobLogQuery)
    logs = read_logs(visit.runtime, job, query.attempt, {})
    return _page(
        visit,
        "Log",
        JobLogPart(logs=logs, gaps=gaps_of(logs)),
        job,
        log=("job", job.id) if logs.runs else None,
        json=f"/jobs/{job.id}/logs" + (f"?attempt={query.attempt}" if query.attempt else ""),
        command=command("logs", f"job:{job.id}", attempt=query.attempt or None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPart:
    """A job's files, with the way of each."""

    files: Sequence[FileOfJob]


def files(visit: Visit) -> Page:
    """Show which files a job reads and made, and how each travels."""
    job = _find_job(visit)
    part = FilesPart(files=explained(visit.runtime, job, 1).files)
    return _page(
        visit, "Files", part, job, json=f"/jobs/{job.id}/explain", command=command("explain", f"job:{job.id}")
    )


def _find_job(visit: Visit) -> JobDetails:
    return visible_job(visit.store, visit.caller, visit.number("job"))


ROUTES: Sequence[Route] = (
    view("/jobs/{job:number}", life),
    view("/jobs/{job:number}/log", log),
    view("/jobs/{job:number}/files", files),
)
