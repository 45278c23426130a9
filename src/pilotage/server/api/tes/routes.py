"""The routes of TES 1.1, which a setting of the server turns on."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response

from pilotage.flow.calls.work import effects, submit
from pilotage.flow.runtime import Runtime
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import AT_A_PILOT
from pilotage.model.rules.verbs import CANCEL
from pilotage.model.values.identity import Credential
from pilotage.model.values.urls import hidden
from pilotage.release import full_version
from pilotage.server.api.edge.access import Person, actor, owner_seen
from pilotage.server.api.edge.answers import FieldFault, answer, documented, field_refused
from pilotage.server.api.edge.dependencies import TES_PREFIX, After, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.tes.changed_files import forget_changed
from pilotage.server.api.tes.records import (
    ShownTesTask,
    TesCancelled,
    TesCreated,
    TesServiceInfo,
    TesTask,
    TesTasks,
    View,
)
from pilotage.server.api.tes.shown_tasks import minimal, shown, stored_in
from pilotage.server.api.tes.states import STATES_BEFORE, TesState
from pilotage.server.api.tes.submission import (
    BACKEND_PARAMETERS,
    KEY_TAG,
    LABEL,
    VERSION,
    RefusedTesTask,
    Translation,
    is_label,
    name_of,
)
from pilotage.server.api.work.tasks import steerable_task, visible_task
from pilotage.store import BadCursor, JobView, ListPage, TaskDetails, TaskFilter, TaskPage, TaskView

router = APIRouter(prefix=TES_PREFIX, tags=["tes"], route_class=MeasuredRoute)

MOST_LISTED = 2047
MOST_WHOLE = 20
"""Most tasks of a page whose documents are read: each may have a megabyte."""

MOST_FILTERS = 20
ON_NODES = "nodes"
"""The setting with which tasks run without their images."""

_OFF = "this server does not serve TES; its operator can turn it on with PILOTAGE_TES=containers"
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")


def _tes_person(caller: Person, request: Request) -> Credential:
    """Return a person who asks by TES; 404 if the server does not serve it."""
    if not request.app.state.tes:
        raise HTTPException(404, _OFF)
    return caller


TesPerson = Annotated[Credential, Depends(_tes_person)]
TaskId = Annotated[str, Path(max_length=100)]
ViewOf = Annotated[View, Query(description="MINIMAL: number and state; BASIC: without texts; FULL: all")]
TagKeys = Annotated[
    list[str] | None, Query(max_length=MOST_FILTERS, description="only tasks with these tags; repeatable")
]
TagValues = Annotated[
    list[str] | None,
    Query(max_length=MOST_FILTERS, description="values of these tags, in their order; empty: any"),
]


@router.get("/service-info", responses=documented(TesServiceInfo, 404))
def get_service_info(_: TesPerson, runtime: TheRuntime, request: Request) -> Response:
    """What the service is, where inputs may be, and which backend parameters have an effect."""
    federation = runtime.store.federation()
    base = str(request.base_url).rstrip("/")
    info = {
        "id": f"pilotage.{federation.name}",
        "name": f"Pilotage, {federation.name}",
        "type": {"group": "org.ga4gh", "artifact": "tes", "version": f"{VERSION}.0"},
        "organization": {"name": federation.name, "url": base},
        "version": full_version(),
        "storage": _storage_urls(federation),
        "tesResources_backend_parameters": sorted(BACKEND_PARAMETERS),
    }
    return answer(info)


@router.get("/tasks/service-info", include_in_schema=False)
def get_service_info_1_0(_: TesPerson, runtime: TheRuntime) -> Response:
    """What clients of TES 1.0 ask for, like Toil's plugin, in the form that they can read."""
    federation = runtime.store.federation()
    return answer({"name": f"Pilotage, {federation.name}", "doc": "", "storage": _storage_urls(federation)})


@router.post("/tasks", responses=documented(TesCreated, 404, 409))
def post_task(body: TesTask, caller: TesPerson, runtime: TheRuntime, request: Request) -> Response:
    """Submit a task of one job. A repeated tag `idempotency_key` names the first request's task again."""
    with_containers = request.app.state.tes != ON_NODES
    translation = Translation(body, runtime.store.federation(), with_containers)
    try:
        spec = translation.spec()
    except RefusedTesTask as refused:
        raise _refused(refused.faults) from None
    key = body.tags.get(KEY_TAG, "")
    name = submit.name_of(caller.identity, f"tes:{key}" if key else "")
    outcome = submit.submit(runtime, [spec], caller.identity, whole=True, submission=name)
    is_conflict = any(place == "inputs" for _, faults in outcome.refused for place, _ in faults)
    if is_conflict and forget_changed(runtime, spec, caller):
        outcome = submit.submit(runtime, [spec], caller.identity, whole=True, submission=name)
    for _, faults in outcome.refused:
        raise _refused([FieldFault(translation.field_of(place), message) for place, message in faults])
    ((_, number),) = outcome.tasks
    return answer({"id": str(number)})


@router.get("/tasks", responses=documented(TesTasks, 404))
def get_tasks(
    *,
    caller: TesPerson,
    runtime: TheRuntime,
    name_prefix: Annotated[str, Query(max_length=200, description="the beginning of their names")] = "",
    state: Annotated[TesState | None, Query(description="only tasks in this state")] = None,
    tag_key: TagKeys = None,
    tag_value: TagValues = None,
    page_size: Annotated[int, Query(ge=1, le=MOST_LISTED, description="most tasks of the page")] = 256,
    page_token: After = "",
    view: ViewOf = "MINIMAL",
) -> Response:
    """The caller's tasks that came by TES, newest first. A page may have fewer than were asked for."""
    labels = _labels(tag_key or [], tag_value or [])
    if labels is None:
        return answer({"tasks": []})
    page = TaskPage(
        owner=owner_seen(caller),
        task_filter=TaskFilter(name=f"{name_of(name_prefix)}*" if name_prefix else "", labels=labels),
        state=STATES_BEFORE.get(state) if state else None,
        limit=min(page_size, MOST_WHOLE) if name_prefix or view != "MINIMAL" else page_size,
        after=page_token,
    )
    try:
        listed = runtime.store.task_lists.page(page)
    except BadCursor as bad:
        raise field_refused("page_token", str(bad)) from None
    tasks = _documents(runtime, listed, view, name_prefix)
    wanted = [task for task in tasks if state in (None, task["state"])]
    return answer({"tasks": wanted} | ({"next_page_token": listed.next} if listed.next else {}))


@router.get("/tasks/{task}", responses=documented(ShownTesTask, 404))
def get_task(task: TaskId, caller: TesPerson, runtime: TheRuntime, view: ViewOf = "MINIMAL") -> Response:
    """One task. A full view of a running task asks its pilot for what it has written since."""
    details = _visible(runtime, caller, task)
    (document,) = _whole(runtime, [details], view)
    return answer(document)


@router.post("/tasks/{task}:cancel", responses=documented(TesCancelled, 404))
def post_cancel(task: TaskId, caller: TesPerson, runtime: TheRuntime) -> Response:
    """Cancel a task and its job. A task that has ended stays as it is."""
    details = steerable_task(runtime.store, caller, _visible(runtime, caller, task).id)
    effects.do(runtime, CANCEL, actor(caller), details.id)
    return answer({})


def _storage_urls(federation: Federation) -> list[str]:
    return sorted({hidden(storage.url) for storage in federation.storages})


def _visible(runtime: Runtime, caller: Credential, task: str) -> TaskDetails:
    """Return a task of TES that the caller may read; 404 if there is none."""
    if not _NUMBER.fullmatch(task):
        raise HTTPException(404, f"there is no task {task[:80]!r}: tasks have numbers")
    details = visible_task(runtime.store, caller, int(task))
    if LABEL not in details.labels or stored_in(details) is None:
        raise HTTPException(404, f"task {task} did not come by TES; pilotage status {task} shows it")
    return details


def _documents(
    runtime: Runtime, listed: ListPage[TaskView], view: View, name_prefix: str
) -> Sequence[dict[str, Any]]:
    """Return the tasks of a page whose names begin so: signs of our names may stand for others."""
    if view == "MINIMAL" and not name_prefix:
        jobs = runtime.store.job_lists.of_tasks([task.id for task in listed])
        return [minimal(task, jobs.get(task.id)) for task in listed]
    read = (runtime.store.queries.task(task.id) for task in listed)
    return _whole(runtime, [task for task in read if task is not None], view, name_prefix)


def _whole(
    runtime: Runtime, tasks: Sequence[TaskDetails], view: View, name_prefix: str = ""
) -> Sequence[dict[str, Any]]:
    """Return those tasks that came by TES, with the logs of their jobs if the view shows them."""
    jobs = runtime.store.job_lists.of_tasks([task.id for task in tasks])
    logs = runtime.store.logs.latest([job.id for job in jobs.values()]) if view != "MINIMAL" else {}
    if view == "FULL":
        _ask_for_logs(runtime, jobs.values())
    whole = []
    for task in tasks:
        stored, job = stored_in(task), jobs.get(task.id)
        if stored is None or not (stored.task.name or "").startswith(name_prefix):
            continue
        streams = logs.get(job.id, (0, []))[1] if job else []
        whole.append(
            minimal(task, job) if view == "MINIMAL" else shown(runtime, task, stored, job, streams, view)
        )
    return whole


def _ask_for_logs(runtime: Runtime, jobs: Iterable[JobView]) -> None:
    for job in jobs:
        if job.state in AT_A_PILOT:
            runtime.log_readers.ask("job", job.id, runtime.clock())


def _labels(keys: Sequence[str], values: Sequence[str]) -> tuple[str, ...] | None:
    """Return the labels that tasks with these tags have; None if no task can have them."""
    if len(values) > len(keys):
        raise field_refused(
            "tag_value", f"there are {len(values)} values for {len(keys)} keys; give each a key"
        )
    if not all(map(is_label, keys)):
        return None
    texts = [*values, *[""] * (len(keys) - len(values))]
    return LABEL, *(f"{key}={text}" if text else key for key, text in zip(keys, texts, strict=True))


def _refused(faults: Sequence[FieldFault]) -> HTTPException:
    return HTTPException(422, [{"field": fault.field, "message": fault.message} for fault in faults])
