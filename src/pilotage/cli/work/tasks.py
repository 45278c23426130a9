"""Look at tasks."""

from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import (
    After,
    Column,
    Json,
    Limit,
    ago,
    echo,
    hint_next,
    one_line,
    show,
    show_json,
    show_lines,
    width,
)
from pilotage.cli.terminal.states import Verbose, jobs_by_state, state_of_task, task_with_age
from pilotage.cli.terminal.subjects import Task, task_number, task_numbers, work_of
from pilotage.cli.terminal.task_filters import TaskFilters, with_filters
from pilotage.model.records.states import ENDED
from pilotage.model.values.error_lines import in_short, is_long
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client
    from pilotage.client.records import Table

app = typer.Typer()

TASKS = (
    Column("task", number=True),
    Column("name"),
    Column("state"),
    Column("jobs"),
    Column("priority", essential=False, number=True),
    Column("owner", essential=False),
    Column("labels", essential=False),
    Column("since", number=True),
    Column("error", essential=False),
)


class TaskOrder(StrEnum):
    """What tasks are sorted by."""

    NEWEST = "newest"
    CHANGED = "changed"
    PRIORITY = "priority"
    NAME = "name"


OUTPUTS = (Column("name"), Column("bytes", number=True), Column("where"))


@app.command(epilog="Example: pilotage status 12 --watch, or many: pilotage status --label campaign=a")
@with_filters
def status(
    filters: TaskFilters,
    task: Annotated[str | None, typer.Argument(help="A task, or a workflow; else all tasks.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep the view up to date; of a task, until it ends.")
    ] = False,
    sort: Annotated[
        TaskOrder | None, typer.Option(help="By what: times and priorities from the largest, names upwards.")
    ] = None,
    limit: Limit = 50,
    after: After = "",
    shared: Annotated[bool, typer.Option("--shared", help="Tasks of others that you may read.")] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Waiting, running, failing and moving work, in ten lines.")
    ] = False,
    verbose: Verbose = False,
    json_output: Json = False,
) -> None:
    """Show tasks, or one task with its jobs by queue and state, why it waits, and its place in line."""
    from pilotage.cli.work import following, overview

    filters.refuse_beside(task)
    order = sort and sort.value
    if now and (task is not None or watch or filters.has_conditions):
        raise BadInput("--now is about all that is under way; leave out tasks, filters and --watch")
    with connect() as client:
        if now:
            overview.show_overview(client, json_output)
        elif task is not None:
            _show_work(client, task, watch, json_output, verbose)
        elif watch and not json_output:
            following.keep_showing(
                client,
                lambda: filters.tasks(client, limit, order, after, shared),
                partial(rows, verbose=verbose),
                TASKS,
            )
        else:
            nothing = "No task matches." if filters.has_conditions else "There are no tasks."
            _show_tasks(filters.tasks(client, limit, order, after, shared), nothing, json_output, verbose)


def _show_work(client: "Client", word: str, watch: bool, json_output: bool, verbose: bool) -> None:
    """Show the task or workflow that a word names; with ``watch`` after its end."""
    from pilotage.cli.work import following

    work = work_of(client, word)
    if watch:
        numbers = task_numbers(client, [f"{work.kind}:{work.number}"])
        following.follow(client, numbers, is_shown=not json_output)
    if work.kind == "task":
        _show_task(client, work.number, json_output, verbose)
    else:
        _show_workflow(client, work.number, json_output)


def _show_tasks(page: "Table[Any]", nothing: str, json_output: bool, verbose: bool) -> None:
    if json_output:
        show_json(page)
        return
    show(TASKS, rows(page, verbose), nothing)
    hint_next(page, "task")


def rows(document: Any, verbose: bool = False) -> list[tuple[object, ...]]:
    """Return the rows of ``TASKS``."""
    return [
        (
            view["id"],
            view["name"],
            state_of_task(view, verbose),
            jobs_by_state(view["jobs"], verbose),
            view["priority"],
            f"{view['owner']} ({view['vo']})" if view["vo"] else view["owner"],
            _labels(view),
            ago(view["since"]),
            one_line(in_short(view["error"])),
        )
        for view in document
    ]


def _labels(view: Any) -> str:
    return ", ".join(f"{name}={text}" for name, text in view.get("labels", {}).items())


@app.command(epilog="Example: pilotage outputs 12")
def outputs(
    task: Task,
    json_output: Json = False,
) -> None:
    """List the files that a task's jobs made, and their storages."""
    with connect() as client:
        number = task_number(client, task)
        document = client.outputs(number)
    if json_output:
        show_json(document)
        return
    file_rows = [
        (file["name"], file["size"], url or "at no storage now")
        for file in document
        for url in [place["url"] or place["storage"] for place in file["replicas"]] or [""]
    ]
    show(OUTPUTS, file_rows, f"Task {number} has no outputs yet.")


def _show_workflow(client: "Client", workflow: int, json_output: bool) -> None:
    if json_output:
        show_json(client.workflow(workflow))
        return
    show_lines(client.explain_workflow(workflow, width=width())["lines"])


def _show_task(client: "Client", task: int, json_output: bool, verbose: bool) -> None:
    view = client.task(task)
    by_queue = _jobs_by_queue(client, task)
    has_ended = view["state"] in ENDED["task"]
    if json_output:
        show_json({**view, "jobs_by_queue": by_queue})
        return
    owner = f"{view['owner']} ({view['vo']})" if view["vo"] else view["owner"]
    echo(f"task {view['id']} {view['name']}: {task_with_age(view, verbose)}")
    place = f"in share {view['share']}, priority {view['priority']}"
    echo(f"submitted {ago(view['created'])} ago by {owner} {place}")
    if view["error"] and view["state"] != "waiting":
        echo(f"error: {in_short(view['error'])}", colour="red")
        if is_long(view["error"]):
            echo(f"all of it: pilotage logs {view['id']} --failed")
    for line in _lines(view):
        echo(line)
    if by_queue is None:
        echo(f"jobs: {jobs_by_state(view['jobs'], verbose)}")
    else:
        queue_rows = [
            (queue or "(no queue yet)", jobs_by_state(states, verbose)) for queue, states in by_queue.items()
        ]
        show((Column("queue"), Column("jobs")), queue_rows, "It has no jobs yet.")
    if view["state"] in ("failed", "cancelled"):
        echo(f"why: pilotage explain {view['id']}; again: pilotage retry {view['id']}")
    if has_ended:
        echo(f"its outputs: pilotage outputs {view['id']}; to bring them here: pilotage fetch {view['id']}")


def _lines(view: Any) -> Iterator[str]:
    """Yield the remarks on a task, its changes and measurements."""
    from pilotage.explain.remarks import lines

    yield from lines(view.remarks)
    if any(remark.mend for remark in view.remarks):
        yield f"more: pilotage explain {view['id']}"
    if view.get("labels"):
        yield f"labels: {_labels(view)}"
    yield from map(_change, view.get("changes", ()))
    if view.get("datasets"):
        yield f"reads {', '.join(view['datasets'])}"
    if view.get("measured"):
        yield _describe_measurements(view["measured"])


def _change(note: Any) -> str:
    """Return the changes of a task's jobs with their authors, in one line."""
    jobs = f"job {note['job']}" if note["job"] else plural(note["jobs"], "job")
    return f"changed by {note['by']} {ago(note['time'])} ago, {jobs}: {note['what']}"


def _describe_measurements(measurements: Any) -> str:
    """Return the needs that the scouts measured, in one line."""
    units = {
        "memory": "MB",
        "cpu_time": "HS23 s/event",
        "walltime": "s",
        "out_disk": "MB/event",
        "work_disk": "MB",
    }
    values = [
        f"{name} {measurements[name]:.4g} {units[name]}" for name in units if measurements[name] is not None
    ]
    return f"measured by {measurements['finished']} scouts: {', '.join(values)}"


def _jobs_by_queue(client: "Client", task: int) -> dict[str, dict[str, int]] | None:
    """Return the number of jobs by queue and state; None from an earlier server."""
    from pilotage.client import OtherVersion

    with suppress(OtherVersion):
        return client.jobs_by_queue(task).to_dict()
    return None


@app.command(epilog="Example: pilotage publish 12")
def publish(
    task: Task,
    json_output: Json = False,
) -> None:
    """Register outputs that could not enter the task's dataset, after you removed the obstacle."""
    from pilotage.client import RemarkRecord
    from pilotage.explain.remarks import lines

    with connect() as client:
        number = task_number(client, task)
        view = client.publish(number)
    remarks = [remark for remark in map(RemarkRecord, view["remarks"]) if remark.kind == "publication"]
    if json_output:
        show_json({"published": [remark.to_dict() for remark in remarks]})
    for line in () if json_output else lines(remarks):
        echo(line)
    if not remarks:
        raise CommandFailure(f"task {number} has no output_dataset")
