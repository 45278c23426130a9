"""Tasks of Pilotage as tasks of TES, in its three views."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import TaskState
from pilotage.model.values.paths import path_in_job
from pilotage.server.api.tes.container_paths import ROOT
from pilotage.server.api.tes.logs import executor_ends
from pilotage.server.api.tes.records import TesTask, View
from pilotage.server.api.tes.states import state_of
from pilotage.server.api.tes.submission import DOCUMENT
from pilotage.store import JobView, OutputPage, StoredLog, TaskDetails, TaskView

MOST_OUTPUTS = 1000
"""Most files that a task's log names: as many as a job may have."""

KILLED = 128
"""What shells add to the number of the signal that ended a program."""


def minimal(task: TaskView, job: JobView | None) -> dict[str, Any]:
    """Return the number and the state of a task."""
    state = state_of(task.state, task.held, job.state if job else None, job.exit_code if job else None)
    return {"id": str(task.id), "state": state.value}


class StoredTask(BaseModel):
    """A task as its client sent it, and what Pilotage warned of."""

    task: TesTask
    warnings: list[str]


def stored_in(task: TaskDetails) -> StoredTask | None:
    """Return the task that a client of TES sent; None if it came otherwise."""
    try:
        return StoredTask.model_validate_json(task.spec.payload_files.get(DOCUMENT, ""))
    except ValidationError:
        return None


def shown(
    runtime: Runtime,
    task: TaskDetails,
    stored: StoredTask,
    job: JobView | None,
    streams: Sequence[StoredLog],
    view: View,
) -> dict[str, Any]:
    """Return a task in a view."""
    document = stored.task.model_dump(exclude_none=True)
    if view == "FULL":
        for at, item in enumerate(document["inputs"]):
            content = task.spec.payload_files.get(f".tes-input-{at}")
            if content is not None:
                item["content"] = content
    logs = [_log(runtime, task, job, streams, stored.warnings, view)] if job and job.started else []
    if not logs and view == "FULL" and task.error:
        logs = [{"logs": [], "outputs": [], "system_logs": [task.error, *stored.warnings]}]
    return {**document, **minimal(task, job), "creation_time": _when(task.created), "logs": logs}


def _log(
    runtime: Runtime,
    task: TaskDetails,
    job: JobView,
    streams: Sequence[StoredLog],
    warnings: Sequence[str],
    view: View,
) -> dict[str, Any]:
    log: dict[str, Any] = {
        "logs": _executors(job, streams, view),
        "metadata": {"task": str(task.id), "job": str(job.id), "queue": job.queue},
        "start_time": _when(job.started),
        "outputs": _outputs(runtime, task) if task.state is TaskState.FINISHED else [],
    }
    if job.ended is not None:
        log["end_time"] = _when(job.ended)
    if view == "FULL":
        log["system_logs"] = [text for text in (task.error, job.error, *warnings) if text]
    return log


def _executors(job: JobView, streams: Sequence[StoredLog], view: View) -> list[Mapping[str, Any]]:
    ends = executor_ends(streams)
    logs: list[Mapping[str, Any]] = []
    for end in ends:
        log: dict[str, Any] = {
            "start_time": end.began,
            "end_time": end.ended,
            "exit_code": end.exit_code,
        }
        logs.append(log | ({"stdout": end.stdout, "stderr": end.stderr} if view == "FULL" else {}))
    if job.exit_code is not None and job.exit_code < 0:
        # The executor that was killed could not note its end.
        logs.append({"exit_code": KILLED - job.exit_code})
    return logs


def _outputs(runtime: Runtime, task: TaskDetails) -> list[Mapping[str, str]]:
    files = runtime.store.queries.outputs(task.id, False, OutputPage("", MOST_OUTPUTS))
    return [
        {
            "url": file.replicas[0].url,
            "path": path_in_job(file.name).removeprefix(ROOT),
            "size_bytes": str(file.size),
        }
        for file in files
        if file.replicas
    ]


def _when(time: float | None) -> str | None:
    return None if time is None else datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
