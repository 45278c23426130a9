"""The first page: why work waits, what fails, which place rests, where data is, and what shares use.

Each answer is a sentence with a number, and is shown only while it is true.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.routing import Route

from pilotage.explain import task_waits
from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.calls.work import remarks, stuck
from pilotage.model.circuit_breakers.breaker import seen_by
from pilotage.model.documents.remarks import Remark
from pilotage.model.records.states import AT_A_PILOT, LIVE_TASKS, JobState, TaskState
from pilotage.model.values.identity import WholeVo
from pilotage.server.api.places.breakers import ShownBreaker, breaker_view
from pilotage.server.web.pages import Page, Staleness, Visit, view
from pilotage.server.web.views.shares import uses
from pilotage.server.web.views.work_day import WorkDay, work_day
from pilotage.store import FailedGroup, ListPage, NoFederation, ShareUse, TaskPage, TaskView, UnreadableTask

MOST_TASKS = 200
"""Most tasks of a state that are read, the newest."""

MOST_EXPLAINED = 20
"""Most waiting tasks whose last decision is read, those of most waiting jobs."""

MOST_FAILING = 10
"""Most failing tasks whose errors are read, the newest."""

MOST_MOVING, MOST_WAYS = 5, 4
"""Most tasks whose data is shown, those of most jobs, and most routes shown of each."""

MOST_ROWS = 12
"""Most rows of an answer."""

LATELY = 86_400.0
"""Seconds for which failed tasks are shown."""

_WAITING = tuple(task_waits.CAUSES)
_BEFORE_START = (JobState.PENDING, JobState.DEFINED, JobState.ACTIVATED)
_MOVING = (JobState.ASSIGNED, JobState.HOLDING, JobState.TRANSFERRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFor:
    """Jobs that wait for one thing, and a task with such jobs."""

    remark: Remark
    jobs: int
    task: TaskView


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingGroup:
    """Failed jobs of a task by error and queue."""

    group: FailedGroup
    task: TaskView


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingData:
    """A task with moving files: for how many jobs, and the number of waiting files by route."""

    task: TaskView
    jobs: int
    routes: Sequence[tuple[str, str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NowModel:
    """The answers of the first page. ``is_bounded``: more tasks are under way than were read."""

    day: WorkDay
    waiting: int
    running: int
    moving: int
    data: Sequence[MovingData]
    failed: int
    waits: Sequence[WaitFor]
    failing: Sequence[FailingGroup]
    breakers: Sequence[ShownBreaker]
    stuck: Sequence[str]
    shares: Sequence[ShareUse]
    is_bounded: bool
    has_tasks: bool
    done: str


def now(visit: Visit) -> Page:
    """Show waiting and failing work, resting places, moving data, and the use of shares."""
    by_state = {state: _tasks(visit, state) for state in (*LIVE_TASKS, TaskState.FAILED)}
    # By number: a task may go on while the pages are read.
    live = list({task.id: task for state in LIVE_TASKS for task in by_state[state]}.values())
    lately = [task for task in by_state[TaskState.FAILED] if task.since > visit.now - LATELY]
    jobs: Counter[str] = Counter()
    for task in live:
        jobs.update(task.jobs)
    model = NowModel(
        day=_day(visit),
        waiting=sum(jobs[state] for state in _WAITING),
        running=sum(jobs[state] for state in AT_A_PILOT),
        moving=sum(jobs[state] for state in _MOVING),
        data=_data(visit, live),
        failed=sum(task.jobs.get(JobState.FAILED, 0) for task in (*live, *lately)),
        waits=_waits(visit, live),
        failing=_failing(visit, [*live, *lately]),
        breakers=_breakers(visit),
        stuck=_stuck(visit) if visit.sees_all else (),
        shares=[use for use in uses(visit) if use.target][:MOST_ROWS],
        is_bounded=any(page.next for page in by_state.values()),
        has_tasks=any(by_state.values()),
        done=visit.done,
    )
    return Page(
        template="now.html",
        title="Now",
        section="Now",
        model=model,
        json=f"/tasks?limit={MOST_TASKS}",
        command="pilotage status --now",
        stale=Staleness(seconds=5),
    )


def _day(visit: Visit) -> WorkDay:
    """Return the last day of the work that the caller sees."""
    owner = visit.owner
    if owner is None:
        return work_day(visit, "all")
    return (
        work_day(visit, "vo", owner.vo)
        if isinstance(owner, WholeVo)
        else work_day(visit, "person", owner.key)
    )


def _tasks(visit: Visit, state: TaskState) -> ListPage[TaskView]:
    return visit.store.task_lists.page(TaskPage(owner=visit.owner, state=state, limit=MOST_TASKS))


def _waits(visit: Visit, live: Sequence[TaskView]) -> list[WaitFor]:
    """Return what jobs wait for, most jobs first."""
    tasks_by_cause: defaultdict[tuple[str, str], list[tuple[int, TaskView, Remark]]] = defaultdict(list)
    waiting = [(sum(task.jobs.get(state, 0) for state in _WAITING), task) for task in live]
    for rank, (_, task) in enumerate(sorted(waiting, key=lambda pair: -pair[0])):
        faults = _faults(visit, task) if rank < MOST_EXPLAINED else []
        for state in filter(task.jobs.get, _WAITING):
            cause = remarks.cause(visit.runtime, task, state, is_explained=rank < MOST_EXPLAINED)
            # A fault that the page of the task names, too, comes before what time would mend.
            if cause.mend == "wait" and faults and state in _BEFORE_START:
                cause = replace(faults[0], text=f"{cause.text}; {faults[0].text}")
            tasks_by_cause[cause.text, cause.action].append((task.jobs[state], task, cause))
    waits = [
        WaitFor(
            remark=tasks[0][2],
            jobs=sum(count for count, _, _ in tasks),
            task=max(tasks, key=lambda pair: pair[0])[1],
        )
        for tasks in tasks_by_cause.values()
    ]
    return sorted(waits, key=lambda wait: -wait.jobs)[:MOST_ROWS]


def _faults(visit: Visit, task: TaskView) -> list[Remark]:
    """Return the faults of a task that keep its jobs from starting, as its own page and command list them."""
    try:
        details = visit.store.queries.task(task.id)
    except UnreadableTask:  # its own page says so
        return []
    if details is None or details.held:
        return []
    return [remark for remark in remarks.faults_of(visit.runtime, details) if remark.kind == "fault"]


def _failing(visit: Visit, tasks: Sequence[TaskView]) -> list[FailingGroup]:
    failed = [task for task in tasks if task.jobs.get(JobState.FAILED)]
    newest = sorted(failed, key=lambda task: -task.since)[:MOST_FAILING]
    groups = [
        FailingGroup(group=group, task=task)
        for task in newest
        for group in visit.store.job_lists.failed(task.id)[0]
        if group.failed
    ]
    return sorted(groups, key=lambda entry: -entry.group.failed)[:MOST_ROWS]


def _data(visit: Visit, live: Sequence[TaskView]) -> list[MovingData]:
    """Return the tasks with the most jobs that wait for files, and the routes of files not moving yet."""
    moving = [(sum(task.jobs.get(state, 0) for state in _MOVING), task) for task in live]
    busiest = sorted((pair for pair in moving if pair[0]), key=lambda pair: (-pair[0], pair[1].id))[
        :MOST_MOVING
    ]
    queries = visit.store.transfer_queries
    return [
        MovingData(task=task, jobs=jobs, routes=queries.waiting_of(task.id)[:MOST_WAYS])
        for jobs, task in busiest
    ]


def _breakers(visit: Visit) -> list[ShownBreaker]:
    try:
        tripped = seen_by(circuit_breakers.tripped(visit.runtime), visit.owner)
        return [breaker_view(breaker, visit.now) for breaker in tripped][:MOST_ROWS]
    except NoFederation:
        return []


def _stuck(visit: Visit) -> Sequence[str]:
    """Return stuck records as lines, the worst first; the same ones for some seconds."""

    def read_lines() -> list[str]:
        return [group.what for group in stuck.everything(visit.runtime)]

    try:
        return visit.runtime.recent_stuck.get(0, visit.now, read_lines)
    except NoFederation:
        return ()


ROUTES: Sequence[Route] = (view("/", now),)
