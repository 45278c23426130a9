"""Queues: the list, and one with its limits, load, circuit breakers and explanation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from starlette.routing import Route

from pilotage.explain import restrictions
from pilotage.explain.layout import PLAIN
from pilotage.explain.queues import limits, of_task, shares
from pilotage.flow.calls.pilots.queue_tests import no_queue
from pilotage.flow.calls.places import conditions
from pilotage.flow.calls.work import preview, remarks
from pilotage.model.documents.remarks import Remark
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.states import AT_A_PILOT, UNSTARTED_JOBS, JobState
from pilotage.server.api.places.queues import shown_queues
from pilotage.server.api.views import ShownQueue
from pilotage.server.api.work.explanations import explained_queue
from pilotage.server.web.action_model import ActionLink, FieldQuery, shown_fields
from pilotage.server.web.pages import OF_PLACES, Page, Visit, command, view
from pilotage.server.web.place_actions import verbs
from pilotage.server.web.views.places import PlacePage, PlaceQuery, page_of


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue in the list."""

    queue: ShownQueue
    status: str
    is_bad: bool
    waiting: int
    running: int

    @property
    def name(self) -> str:
        """Return the queue's name."""
        return self.queue.name

    @property
    def site(self) -> str:
        """Return the queue's site."""
        return self.queue.site


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesModel:
    """Queues with their load."""

    page: PlacePage[QueueRow]
    statuses: Mapping[str, int]
    done: str


def queues(visit: Visit) -> Page:
    """Show queues by name, with who drains or closed them, their limits, load and circuit breakers."""
    query = visit.query(PlaceQuery)
    rows = [_row(queue) for queue in shown_queues(visit.runtime, visit.owner)]
    model = QueuesModel(
        page=page_of(visit, query, rows), statuses=Counter(row.status for row in rows), done=visit.done
    )
    return Page(
        template="queues.html",
        title="Queues",
        section="Queues",
        model=model,
        json="/queues",
        command=command("queues"),
        stale=OF_PLACES,
    )


def _row(queue: ShownQueue) -> QueueRow:
    states = {breaker.state for breaker in queue.breakers if breaker.kind != "node"}
    status = restrictions.status(queue.status, queue.restriction, {*states})
    return QueueRow(
        queue=queue,
        status=status,
        is_bad=status not in ("online", "standby"),
        waiting=_count(queue.jobs, UNSTARTED_JOBS),
        running=_count(queue.jobs, AT_A_PILOT),
    )


def _count(jobs: Mapping[JobState, int], states: Sequence[JobState]) -> int:
    return sum(jobs.get(state, 0) for state in states)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueModel:
    """One queue."""

    row: QueueRow
    remarks: Sequence[Remark]
    limits: Sequence[str]
    shares: Sequence[tuple[str, Mapping[JobState, int]]]
    fields: Sequence[tuple[str, str, str]]
    fits: Sequence[str]
    storage: str
    most_pilots: int
    lines: Sequence[str]
    verbs: Sequence[ActionLink]
    done: str


def queue(visit: Visit) -> Page:
    """Show one queue: its limits, load and circuit breakers, and why nothing starts there."""
    name = visit.request.path_params["queue"]
    view = next(
        (candidate for candidate in shown_queues(visit.runtime, visit.owner) if candidate.name == name), None
    )
    explanation = explained_queue(visit.runtime, name, (), PLAIN, visit.owner)
    if view is None or explanation is None:
        raise no_queue(name)
    (condition,) = conditions.of_queues(visit.runtime, [name])
    query = visit.query(FieldQuery)
    element = condition.queue.computing_element
    model = QueueModel(
        row=_row(view),
        remarks=remarks.of_queue(visit.runtime, condition),
        limits=list(limits(condition)),
        shares=shares(condition),
        fields=shown_fields(query)[:-1],
        fits=_fits(visit, name, query),
        storage=condition.storage.name,
        most_pilots=element.max_pilots if element else 0,
        lines=explanation.lines,
        verbs=verbs(visit, "queue", name),
        done=visit.done,
    )
    return Page(
        template="queue.html",
        title=name,
        section="Queues",
        model=model,
        json=f"/queues/{quote(name, safe='')}/explain",
        command=command("explain", queue=name),
        stale=OF_PLACES,
    )


def _fits(visit: Visit, name: str, query: FieldQuery) -> list[str]:
    """Return the brokerage's reasons for or against a queue, for a job of the caller with these needs."""
    if not query.changes():
        return []
    spec = TaskSpec(
        name="what-if",
        command=("true",),
        scouts=0,
        cores=query.cores or 1,
        ram=query.memory or 0,
        ram_unit="MB",
        walltime=query.walltime or 0,
    )
    planned, refused = preview.run(visit.runtime, [(0, spec)], visit.caller.identity)
    faults = [f"{field}: {message}" for _, fields in refused for field, message in fields]
    (_, *lines) = of_task(name, [choice for task in planned.tasks for choice in task.choices]) or [""]
    return faults or [line.removeprefix("  ") for line in lines]


ROUTES: Sequence[Route] = (view("/queues", queues), view("/queues/{queue}", queue))
