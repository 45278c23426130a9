"""Actions on ticked tasks or jobs: each page first counts what it would do, and then does it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.flow.calls.work import effects
from pilotage.flow.errors import NotNow
from pilotage.model.records.states import AT_A_PILOT, LIVE_JOBS, JobState
from pilotage.model.rules.plain_states import job_state
from pilotage.model.rules.verbs import CANCEL, DELETE, HOLD, RELEASE, RETRY, Verb
from pilotage.model.values.identity import Identity
from pilotage.model.values.phrases import plural
from pilotage.model.values.types import LARGEST_ID
from pilotage.server.api.edge.access import actor
from pilotage.server.api.work.deleting import DeletedTask, DeletionRequest, deleted, deleted_task
from pilotage.server.api.work.jobs import steerable_job
from pilotage.server.api.work.tasks import steerable_task
from pilotage.server.web import task_verbs
from pilotage.server.web.action_model import ActionPreview, ActionSubject, PageAction
from pilotage.server.web.pages import Visit, command, validated
from pilotage.server.web.views import job as job_view
from pilotage.store import TaskDetails, part_of_act

MOST_CHOSEN = 100
"""Most tasks or jobs of a selection."""

FIELD = "chosen"
"""The field of the form with the numbers of a selection."""

OF_TASKS: Sequence[Verb] = (RETRY, HOLD, RELEASE, CANCEL, DELETE)
OF_JOBS: Sequence[Verb] = (RETRY, CANCEL)

_BAD = (JobState.FAILED, JobState.CANCELLED, JobState.CLOSED)
_WAITING = tuple(state for state in LIVE_JOBS if state not in AT_A_PILOT)
_MOVED: Mapping[str, tuple[Sequence[JobState], str]] = {
    "retry": (_BAD, "will run again"),
    "hold": (_WAITING, "will wait until you release {it}"),
    "release": (_WAITING, "may start again"),
    "cancel": (LIVE_JOBS, "will end"),
}
"""The states of jobs that a verb moves, and what then happens to them."""

Kind = Literal["task", "job"]


class Selection(BaseModel):
    """The numbers of ticked tasks or jobs."""

    chosen: Annotated[
        list[Annotated[int, Field(ge=1, le=LARGEST_ID)]], Field(min_length=1, max_length=MOST_CHOSEN)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """A ticked task or job: whether a verb has an effect on it, and on how many jobs."""

    name: str
    task: TaskDetails
    job: int | None
    can: bool
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _SelectionSubject(ActionSubject):
    """What is ticked."""

    kind: Kind
    numbers: Sequence[int]
    chosen: Sequence[_Chosen]

    @property
    def able(self) -> list[_Chosen]:
        return [chosen for chosen in self.chosen if chosen.can]

    @property
    def tasks(self) -> list[DeletedTask]:
        return [deleted_task(chosen.task) for chosen in self.able]


def _find(kind: Kind, verb: Verb, visit: Visit) -> _SelectionSubject:
    if visit.request.method == "POST":
        values = visit.form.get(FIELD, "").split(",")
    else:
        values = visit.request.query_params.getlist(kind)
    numbers = list(dict.fromkeys(validated(Selection, {FIELD: values}).chosen))
    chosen = [(_task if kind == "task" else _job)(visit, verb, number) for number in numbers]
    path = "/tasks" if kind == "task" else f"/tasks/{chosen[0].task.id}/jobs"
    return _SelectionSubject(
        name=plural(len(numbers), kind),
        path=path,
        section="Tasks",
        json=f"/tasks/{chosen[0].task.id}",
        are_many=len(numbers) > 1,
        kind=kind,
        numbers=numbers,
        chosen=chosen,
    )


def _task(visit: Visit, verb: Verb, number: int) -> _Chosen:
    task = steerable_task(visit.store, visit.caller, number)
    states, _ = _MOVED.get(verb.name, ((), ""))
    return _Chosen(
        name=f"task {task.id} {task.name}",
        task=task,
        job=None,
        can=any(link.address.endswith(f"/{verb.name}") for link in task_verbs.verbs(task)),
        jobs=sum(task.jobs.get(state, 0) for state in states),
    )


def _job(visit: Visit, verb: Verb, number: int) -> _Chosen:
    job = steerable_job(visit.store, visit.caller, number)
    return _Chosen(
        name=f"job {job.id}, which is {job_state(job.state)}",
        task=steerable_task(visit.store, visit.caller, job.task),
        job=job.id,
        can=any(link.address.endswith(f"/{verb.name}") for link in job_view.verbs(job)),
        jobs=1,
    )


def _show(verb: Verb, visit: Visit, subject: _SelectionSubject, fault: str) -> ActionPreview:
    able = subject.able
    words = [f"job:{number}" if subject.kind == "job" else number for number in subject.numbers]
    preview = _deletion(visit, subject, fault) if verb is DELETE else _moves(verb, subject)
    idle = [chosen.name for chosen in subject.chosen if not chosen.can]
    rest = [f"Nothing happens to {len(idle)} of them: {'; '.join(idle[:10])}."] if idle else []
    return ActionPreview(
        says=[*preview.says, *rest],
        lines=preview.lines,
        choice=preview.choice,
        can=preview.can and bool(able),
        # Only these: what becomes possible for others while somebody reads the page was not counted.
        hidden={FIELD: ",".join(str(chosen.job or chosen.task.id) for chosen in able)},
        command=command(verb.name, *words),
    )


def _moves(verb: Verb, subject: _SelectionSubject) -> ActionPreview:
    able = subject.able
    _, effect = _MOVED[verb.name]
    jobs = plural(sum(chosen.jobs for chosen in able), "job")
    of = f" of {plural(len(able), 'task')}" if subject.kind == "task" else ""
    says = f"{jobs}{of} {effect.format(it='them' if len(able) > 1 else 'it')}."
    lines = [f"{chosen.name}: {plural(chosen.jobs, 'job')}" for chosen in able if subject.kind == "task"]
    return ActionPreview(says=[says], lines=lines, command="")


def _deletion(visit: Visit, subject: _SelectionSubject, fault: str) -> ActionPreview:
    if not subject.tasks:
        return ActionPreview(says=[], command="")
    try:
        plan = deleted(visit.runtime, subject.tasks, DeletionRequest(dry_run=True))
    except NotNow as error:
        return ActionPreview(says=() if fault else [str(error)], can=False, command="")
    says = [f"This goes with {plural(len(subject.tasks), 'task')}, and cannot be brought back:"]
    choice = ("outputs", "their outputs too") if plan.outputs.files else None
    return ActionPreview(says=says, lines=plan.lines, choice=choice, command="")


def _do(verb: Verb, visit: Visit, subject: _SelectionSubject) -> int | None:
    if verb is DELETE:
        outputs = visit.form.get("outputs") == "yes"
        deleted(visit.runtime, subject.tasks, DeletionRequest(outputs=outputs))
        return None
    moved, faults = 0, []
    for chosen in subject.able:
        record = f"job {chosen.job}" if chosen.job else f"task {chosen.task.id}"
        owner = Identity(name=chosen.task.owner, vo=chosen.task.vo)
        try:
            with part_of_act(record=record, owner=owner):
                effect = effects.do(visit.runtime, verb, actor(visit.caller), chosen.task.id, chosen.job)
        except NotNow as error:
            faults.append(f"{chosen.name}: {error}")
        else:
            moved += sum(effect.moved.values())
    if faults:
        raise NotNow(f"{len(faults)} of {len(subject.able)} were refused: {'; '.join(faults[:10])}")
    return moved if verb.outcome else None


def _routes() -> Iterator[Route]:
    kinds: tuple[tuple[Kind, Sequence[Verb]], ...] = (("task", OF_TASKS), ("job", OF_JOBS))
    for kind, verbs in kinds:
        for verb in verbs:
            of_selection = PageAction(
                verb=verb,
                find=partial(_find, kind, verb),
                show=partial(_show, verb),
                do=partial(_do, verb),
            )
            yield from of_selection.routes(f"/{kind}s/selected/{verb.name}")


ROUTES: Sequence[Route] = tuple(_routes())
