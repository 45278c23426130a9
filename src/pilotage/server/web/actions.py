"""Actions on tasks, jobs and circuit breakers: each page first says what it will change, then does it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Route

from pilotage.explain.comparison import SideBySide, compare
from pilotage.federation.faults import BadDocument, field_name
from pilotage.flow import task_cancellation
from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.calls.work import steering
from pilotage.flow.calls.work.changes import Wanted, set_fields, set_preview
from pilotage.flow.calls.work.retry import retry, retry_preview
from pilotage.flow.errors import NotNow
from pilotage.model.circuit_breakers.breaker import Kind
from pilotage.model.records.states import AT_A_PILOT, ENDED, LIVE_JOBS, JobState
from pilotage.model.values.phrases import plural
from pilotage.server.api.edge.access import actor
from pilotage.server.api.places.breakers import ShownBreaker, shown
from pilotage.server.api.work.jobs import cancel as cancel_job
from pilotage.server.api.work.jobs import refuse_to_cancel
from pilotage.server.api.work.jobs import seen as seen_job
from pilotage.server.api.work.tasks import seen as seen_task
from pilotage.server.web.action_model import ActionModel, FieldQuery, shown_fields
from pilotage.server.web.commands import command
from pilotage.server.web.pages import Page, Redirect, Visit, action, own_path, validated, view
from pilotage.store import JobDetails, TaskDetails

_WAITING = tuple(state for state in LIVE_JOBS if state not in AT_A_PILOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """The task or job of an action."""

    task: TaskDetails
    job: JobDetails | None = None

    @property
    def name(self) -> str:
        return f"job {self.job.id}" if self.job else f"task {self.task.id} {self.task.name}"

    @property
    def path(self) -> str:
        return f"/jobs/{self.job.id}" if self.job else f"/tasks/{self.task.id}"

    @property
    def word(self) -> str:
        return f"job:{self.job.id}" if self.job else str(self.task.id)

    @property
    def job_id(self) -> int | None:
        return self.job.id if self.job else None

    def count(self, states: Sequence[JobState]) -> int:
        return sum(self.task.jobs.get(state, 0) for state in states)


def _of_task(visit: Visit) -> _Subject:
    return _Subject(task=seen_task(visit.store, visit.caller, visit.number("task")))


def _of_job(visit: Visit) -> _Subject:
    job = seen_job(visit.store, visit.caller, visit.number("job"))
    return _Subject(task=seen_task(visit.store, visit.caller, job.task), job=job)


Find = Callable[[Visit], _Subject]


def _page(subject: _Subject, verb: str, model: ActionModel, **options: object) -> Page:
    words = options.pop("words", ())
    assert isinstance(words, list | tuple)
    return Page(
        template="action.html",
        title=model.heading,
        section="Tasks",
        model=model,
        json=subject.path,
        command=command(verb, subject.word, *words, **options),
    )


def _done(subject: _Subject, verb: str, jobs: int | None = None) -> Redirect:
    told = {"done": verb} | ({"jobs": str(jobs)} if jobs is not None else {})
    return Redirect(address=f"{subject.path}?{urlencode(told)}")


_STEERED: Mapping[str, steering.Verb] = {
    "hold": steering.hold,
    "release": steering.release,
    "finish": steering.finish,
}


def _says(verb: str, subject: _Subject) -> list[str]:
    waiting, running = subject.count(_WAITING), subject.count(AT_A_PILOT)
    found = [(waiting, "waiting job"), (running, "running job")]
    open_jobs = " and ".join(plural(count, noun) for count, noun in found if count) or "No job"
    made = subject.count((JobState.FINISHED, JobState.MERGING))
    return {
        "hold": [
            f"{plural(waiting, 'job')} that did not start will wait until you release the task.",
            *([f"{plural(running, 'running job')} will go on."] if running else []),
        ],
        "release": ["Its jobs are brokered again, and start where there is room."],
        "finish": [f"{plural(made, 'finished job')} will stay.", f"{open_jobs} will be closed."],
        "cancel": [f"{open_jobs} will end, and all transfers of the task.", "Outputs that are stored stay."],
    }[verb]


def _steer_page(verb: str, visit: Visit) -> Page:
    subject = _of_task(visit)
    ended = subject.task.state in ENDED["task"]
    told = [f"Task {subject.task.id} is {subject.task.state}: nothing is left to do."] if ended else []
    model = ActionModel(
        heading=f"{verb.capitalize()} {subject.name}?",
        says=told or _says(verb, subject),
        address=f"{subject.path}/{verb}",
        button=f"{verb.capitalize()} it",
        can=not ended,
        is_dangerous=verb in ("cancel", "finish"),
        back=subject.path,
    )
    return _page(subject, verb, model)


def _steer(verb: str, visit: Visit) -> Redirect:
    subject = _of_task(visit)
    if verb == "cancel":
        task_cancellation.cancel(visit.runtime, subject.task.id, "cancelled by a person", actor(visit.caller))
        return _done(subject, verb)
    moved = _STEERED[verb](visit.runtime, subject.task.id, actor(visit.caller))
    return _done(subject, verb, sum(moved.values()))


def _change_page(verb: str, find: Find, visit: Visit) -> Page:
    subject, query = find(visit), visit.query(FieldQuery)
    return _change_preview(verb, subject, query, visit)


def _change_preview(verb: str, subject: _Subject, query: FieldQuery, visit: Visit, refused: str = "") -> Page:
    changes, says, faults = query.changes(), list[str](), list[str]()
    comparison: SideBySide | None = None
    can = verb == "retry" or bool(changes)
    if can:
        preview = retry_preview if verb == "retry" else set_preview
        try:
            moved, found = preview(
                visit.runtime, subject.task.id, job=subject.job_id, wanted=Wanted(fields=changes)
            )
            comparison = compare(found)
            told = ", ".join(f"{many:,} {state}" for state, many in moved.items())
            word = "run again" if verb == "retry" else "change"
            says = [
                f"{plural(sum(moved.values()), 'job')} will {word}: {told or 'none that is made already'}."
            ]
        except BadDocument as bad:
            faults, can = [f"{field_name(fault.path)}: {fault.text}" for fault in bad.faults], False
        except NotNow as error:
            faults, can = [str(error)], False
    else:
        says = ["Say what to change; you then see what it does before it is done."]
    label = "Retry" if verb == "retry" else "Change"
    model = ActionModel(
        heading=f"{label} {subject.name}?",
        says=says,
        comparison=comparison,
        faults=[*faults, *filter(None, [refused])],
        fields=shown_fields(query, subject.task.spec),
        hidden={name: str(value) for name, value in changes.items()},
        address=f"{subject.path}/{verb}",
        button=f"{label} {'them' if not subject.job else 'it'}",
        can=can,
        may_insist=bool(refused),
        back=subject.path,
    )
    words = [f"{name}={value}" for name, value in changes.items()]
    if verb == "retry":
        return _page(subject, verb, model, set=words, dry_run=True)
    return _page(subject, verb, model, words=words, dry_run=True)


def _change(verb: str, find: Find, visit: Visit) -> Page | Redirect:
    subject = find(visit)
    given = {name: value for name, value in visit.form.items() if name in FieldQuery.model_fields and value}
    query = validated(FieldQuery, given)
    wanted = Wanted(fields=query.changes(), anyway=visit.form.get("anyway") == "yes")
    who, task, job = actor(visit.caller), subject.task.id, subject.job_id
    try:
        if verb == "retry":
            moved = retry(visit.runtime, task, who, job, wanted).moved
        elif wanted.fields:
            moved = set_fields(visit.runtime, task, wanted, who, job)
        else:
            raise HTTPException(422, "say what to change")
    except (NotNow, BadDocument) as error:
        # No queue would take them: say so beside the form, and let the person insist.
        return _change_preview(verb, subject, query, visit, str(error).partition("\n")[0])
    return _done(subject, verb, sum(moved.values()))


def _cancel_job_page(visit: Visit) -> Page:
    subject = _of_job(visit)
    assert subject.job
    faults = []
    try:
        refuse_to_cancel(subject.job)
    except NotNow as error:
        faults = [str(error)]
    model = ActionModel(
        heading=f"Cancel {subject.name}?",
        says=["The other jobs of its task go on. Outputs that are stored stay."],
        faults=faults,
        address=f"{subject.path}/cancel",
        button="Cancel it",
        can=not faults,
        is_dangerous=True,
        back=subject.path,
    )
    return _page(subject, "cancel", model)


def _cancel_job(visit: Visit) -> Redirect:
    subject = _of_job(visit)
    assert subject.job
    cancel_job(visit.runtime, subject.job, actor(visit.caller))
    return _done(subject, "cancel")


class LiftQuery(BaseModel):
    """Which circuit breakers are lifted: of a storage, queue, node or server, and of a kind."""

    name: Annotated[str, Field(min_length=1, max_length=500)]
    kind: Kind | None = None
    back: Annotated[str, Field(max_length=500)] = "/"


def _lift_page(visit: Visit) -> Page:
    visit.for_operators("lift circuit breakers")
    query = visit.query(LiftQuery)
    found, back = _breakers(visit, query), own_path(query.back)
    model = ActionModel(
        heading=f"Lift what rests at {query.name}?",
        says=[f"{plural(len(found), 'circuit breaker')} will close, and all is tried again at once."],
        lines=[
            line
            for one in found
            for line in (f"{one.what}: {one.reason}", "" if one.error in one.reason else f"    {one.error}")
            if line
        ],
        faults=[] if found else [f"nothing rests at {query.name}"],
        hidden={"name": query.name, "back": back} | ({"kind": query.kind} if query.kind else {}),
        address="/breakers/lift",
        button="Lift",
        can=bool(found),
        back=back,
    )
    return Page(
        template="action.html",
        title=model.heading,
        section="Queues",
        model=model,
        json="/breakers",
        command=command("breakers", "lift", query.name, kind=query.kind),
    )


def _lift(visit: Visit) -> Redirect:
    visit.for_operators("lift circuit breakers")
    query = visit.sent(LiftQuery)
    circuit_breakers.lift(visit.runtime, query.name, actor(visit.caller), query.kind)
    return Redirect(address=f"{own_path(query.back).partition('?')[0]}?done=lift")


def _breakers(visit: Visit, query: LiftQuery) -> list[ShownBreaker]:
    tripped = circuit_breakers.tripped(visit.runtime)
    chosen = [one for one in tripped if query.name in one.names and query.kind in (None, one.kind)]
    return [shown(one, visit.now) for one in chosen]


def _routes() -> Sequence[Route]:
    made = [view("/breakers/lift", _lift_page), action("/breakers/lift", _lift)]
    for verb in ("hold", "release", "finish", "cancel"):
        path = f"/tasks/{{task:number}}/{verb}"
        made += [view(path, partial(_steer_page, verb)), action(path, partial(_steer, verb))]
    for verb in ("retry", "set"):
        for kind, find in (("task", _of_task), ("job", _of_job)):
            path = f"/{kind}s/{{{kind}:number}}/{verb}"
            made += [
                view(path, partial(_change_page, verb, find)),
                action(path, partial(_change, verb, find)),
            ]
    path = "/jobs/{job:number}/cancel"
    return [*made, view(path, _cancel_job_page), action(path, _cancel_job)]


ROUTES = _routes()
