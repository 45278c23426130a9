"""Actions on tasks, jobs and circuit breakers: each page first shows its changes, then makes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.explain.comparison import compare
from pilotage.federation.faults import BadDocument, field_name
from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.calls.work import effects
from pilotage.flow.calls.work.changes import Wanted
from pilotage.flow.errors import NotNow
from pilotage.model.circuit_breakers.breaker import Kind
from pilotage.model.records.states import AT_A_PILOT, ENDED, LIVE_JOBS, JobState, TaskState
from pilotage.model.rules.places import is_at, site_of
from pilotage.model.rules.plain_states import task_clause
from pilotage.model.rules.verbs import FINISH, LIFT, OF_TASKS, OF_WORK, RETRY, SET, Verb
from pilotage.model.values.phrases import plural
from pilotage.server.api.edge.access import actor, sites_of
from pilotage.server.api.places.breakers import ShownBreaker, breaker_view
from pilotage.server.api.work.jobs import steerable_job
from pilotage.server.api.work.tasks import steerable_task
from pilotage.server.web.action_model import (
    ActionPreview,
    ActionSubject,
    FieldQuery,
    PageAction,
    shown_fields,
    values,
)
from pilotage.server.web.pages import Visit, command, own_path
from pilotage.store import JobDetails, TaskDetails

_WAITING = tuple(state for state in LIVE_JOBS if state not in AT_A_PILOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WorkSubject(ActionSubject):
    """The task or job of an action. ``word`` is how commands call it."""

    task: TaskDetails
    job: JobDetails | None = None
    word: str

    @property
    def job_id(self) -> int | None:
        return self.job.id if self.job else None

    def count(self, states: Sequence[JobState]) -> int:
        return sum(self.task.jobs.get(state, 0) for state in states)


def _of_task(visit: Visit) -> _WorkSubject:
    task = steerable_task(visit.store, visit.caller, visit.number("task"))
    name, path = f"task {task.id} {task.name}", f"/tasks/{task.id}"
    return _WorkSubject(name=name, path=path, section="Tasks", json=path, task=task, word=str(task.id))


def _of_job(visit: Visit) -> _WorkSubject:
    job = steerable_job(visit.store, visit.caller, visit.number("job"))
    task, path = steerable_task(visit.store, visit.caller, job.task), f"/jobs/{job.id}"
    return _WorkSubject(
        name=f"job {job.id}", path=path, section="Tasks", json=path, task=task, job=job, word=f"job:{job.id}"
    )


def _says(verb: Verb, work: _WorkSubject) -> list[str]:
    waiting, running = work.count(_WAITING), work.count(AT_A_PILOT)
    open_counts = [(waiting, "waiting job"), (running, "running job")]
    open_jobs = " and ".join(plural(count, noun) for count, noun in open_counts if count) or "No job"
    finished = work.count((JobState.FINISHED, JobState.MERGING))
    ends = f"{open_jobs} will end, and all transfers of the task."
    ends = "The other jobs of its task go on." if work.job else ends
    return {
        "hold": [
            f"{plural(waiting, 'job')} that did not start will wait until you release the task.",
            *([f"{plural(running, 'running job')} will go on."] if running else []),
        ],
        "release": ["Its jobs are brokered again, and start where there is room."],
        "finish": ["It ends with the outputs that are there; what failed stays so."]
        if _ends_late(verb, work)
        else [f"{plural(finished, 'finished job')} will stay.", f"{open_jobs} will be closed."],
        "cancel": [ends, "Outputs that are stored stay."],
    }[verb.name]


def _steering(verb: Verb, visit: Visit, work: _WorkSubject, _: str) -> ActionPreview:
    nothing = "" if _ends_late(verb, work) else _nothing_left(visit, work)
    says = [nothing] if nothing else _says(verb, work)
    return ActionPreview(says=says, can=not nothing, command=command(verb.name, work.word))


def _ends_late(verb: Verb, work: _WorkSubject) -> bool:
    """Return whether a task that ended badly should finish with its present outputs."""
    return verb is FINISH and work.task.state in (TaskState.FAILED, TaskState.CANCELLED)


def _nothing_left(visit: Visit, work: _WorkSubject) -> str:
    """Return why a task or job has nothing left to do; empty if it has something."""
    if work.job:
        try:
            effects.refuse_to_cancel(visit.runtime, work.job.id)
        except NotNow as error:
            return str(error)
    elif work.task.state in ENDED["task"]:
        return f"Task {work.task.id} {task_clause(work.task.state)}: nothing is left to do."
    return ""


def _do(verb: Verb, visit: Visit, work: _WorkSubject) -> int | None:
    changes = Wanted(fields=values(visit, FieldQuery).changes(), anyway=visit.form.get("anyway") == "yes")
    if verb is SET and not changes.fields:
        raise NotNow("say what to change")
    effect = effects.do(visit.runtime, verb, actor(visit.caller), work.task.id, work.job_id, changes)
    return sum(effect.moved.values()) if verb.outcome else None


def _changing(verb: Verb, visit: Visit, work: _WorkSubject, fault: str) -> ActionPreview:
    query = values(visit, FieldQuery)
    changes = query.changes()
    preview = ActionPreview(
        says=["Say what to change; you then see what it does before it is done."],
        fields=shown_fields(query, work.task.spec),
        hidden={name: str(value) for name, value in changes.items()},
        can=verb is RETRY or bool(changes),
        may_insist=bool(fault),
        command=_change_command(verb, work, [f"{name}={value}" for name, value in changes.items()]),
    )
    if not preview.can:
        return preview
    try:
        moved, what_if = effects.preview(
            visit.runtime, verb, work.task.id, work.job_id, Wanted(fields=changes)
        )
    except BadDocument as bad:
        faults = [f"{field_name(field_fault.path)}: {field_fault.text}" for field_fault in bad.faults]
        return replace(preview, says=(), faults=faults, can=False)
    except NotNow as error:
        return replace(preview, says=(), faults=[str(error)], can=False)
    states = ", ".join(f"{count:,} {state}" for state, count in moved.items()) or "none that is made already"
    happens = f"{plural(sum(moved.values()), 'job')} will {'run again' if verb is RETRY else 'change'}"
    return replace(preview, says=[f"{happens}: {states}."], comparison=compare(what_if))


def _change_command(verb: Verb, work: _WorkSubject, words: Sequence[str]) -> str:
    if verb is RETRY:
        return command(verb.name, work.word, set=words, dry_run=True)
    return command(verb.name, work.word, *words, dry_run=True)


class LiftQuery(BaseModel):
    """Which circuit breakers are lifted: of a storage, queue, node or server, and of a kind."""

    name: Annotated[str, Field(min_length=1, max_length=500)]
    kind: Kind | None = None
    back: Annotated[str, Field(max_length=500)] = "/"


def _of_breakers(visit: Visit) -> ActionSubject:
    query = values(visit, LiftQuery)
    path = own_path(query.back).partition("?")[0]
    return ActionSubject(
        name=f"the circuit breakers of {query.name}", path=path, section="Queues", json="/breakers"
    )


def _lifting(visit: Visit, subject: ActionSubject, _: str) -> ActionPreview:
    query = values(visit, LiftQuery)
    breakers = _breakers(visit, query)
    return ActionPreview(
        says=[f"{plural(len(breakers), 'circuit breaker')} will close, and all is tried again at once."],
        lines=[
            line
            for breaker in breakers
            for line in (
                f"{breaker.what}: {breaker.reason}",
                "" if breaker.error in breaker.reason else f"    {breaker.error}",
            )
            if line
        ],
        faults=[] if breakers else [f"nothing rests at {query.name}"],
        hidden={"name": query.name, "back": subject.path} | ({"kind": query.kind} if query.kind else {}),
        can=bool(breakers),
        command=command("breakers", "lift", query.name, kind=query.kind),
    )


def _lift(visit: Visit, _: ActionSubject) -> None:
    query = values(visit, LiftQuery)
    circuit_breakers.lift(visit.runtime, query.name, actor(visit.caller), query.kind, sites_of(visit.caller))


def _site_of_breakers(visit: Visit) -> str | None:
    """Return the site of a queue or storage; of a node or server one of the caller's, for they lift there."""
    if not visit.caller.sites:
        return None
    declared = site_of(visit.store.declared_federation(), values(visit, LiftQuery).name)
    return declared or next(iter(visit.caller.sites), None)


def _breakers(visit: Visit, query: LiftQuery) -> list[ShownBreaker]:
    tripped, federation = circuit_breakers.tripped(visit.runtime), visit.store.declared_federation()
    sites = sites_of(visit.caller)
    chosen = [
        breaker
        for breaker in tripped
        if query.name in breaker.names
        and query.kind in (None, breaker.kind)
        and (sites is None or is_at(breaker, federation, sites))
    ]
    return [breaker_view(breaker, visit.now) for breaker in chosen]


def _routes() -> Iterator[Route]:
    lifting = PageAction(verb=LIFT, find=_of_breakers, show=_lifting, do=_lift, site=_site_of_breakers)
    yield from lifting.routes("/breakers/lift")
    for verb in OF_WORK:
        show, do = partial(_changing if verb in (RETRY, SET) else _steering, verb), partial(_do, verb)
        of_task = PageAction(verb=verb, find=_of_task, show=show, do=do)
        yield from of_task.routes(f"/tasks/{{task:number}}/{verb.name}")
        if verb not in OF_TASKS:
            of_job = PageAction(verb=verb, find=_of_job, show=show, do=do)
            yield from of_job.routes(f"/jobs/{{job:number}}/{verb.name}")


ROUTES = tuple(_routes())
