"""Run one command as a task: submit it, follow it, print its output, and end with its exit code."""

import re
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure, PayloadFailed
from pilotage.cli.terminal.layout import visible
from pilotage.cli.terminal.output import Json, echo, show_json, warn
from pilotage.cli.terminal.states import state_of_job
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client, Refused

app = typer.Typer()

MOST_LOGS = 20
"""Most jobs that it prints logs of."""

ALL_FILES = 2**31 - 1
"""As many input files for one job as there are."""

OPTIONS = {
    "secrets": "--secret",
    "ram": "--memory",
    "jobs": "--array",
    "inputs": "--input",
    "outputs": "--output",
}
"""Options that are called otherwise than their fields of a task."""

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input", help="Files to read; without STORAGE from the catalogue.", metavar="[STORAGE:]PATTERN"
    ),
]
Outputs = Annotated[
    list[str] | None,
    typer.Option("--output", help="A file, pattern or folder/ that it leaves.", metavar="NAME"),
]
Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret", help="One of your secrets, which it gets as a variable.", metavar="NAME[:VARIABLE]"
    ),
]
Array = Annotated[int | None, typer.Option(min=1, max=100_000, help="Run it as so many jobs.", metavar="N")]


@app.command(
    epilog="Example: pilotage run --memory 2000 -- python3 fit.py --seed 7",
    context_settings={"allow_interspersed_args": False},
)
def run(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments.", metavar="-- CMD...")],
    inputs: Inputs = None,
    outputs: Outputs = None,
    cores: Annotated[int, typer.Option(min=0, help="Cores; 0: as many as the queue has.")] = 1,
    memory: Annotated[float | None, typer.Option(min=0, help="MB of a job.")] = None,
    walltime: Annotated[float | None, typer.Option(min=0, help="Seconds that a job may take.")] = None,
    array: Array = None,
    secrets: Secrets = None,
    name: Annotated[str, typer.Option(help="The task's name; by default the program's.")] = "",
    json_output: Json = False,
) -> None:
    """Run a command as a task, follow it, and print its output.

    Its standard output, standard error and exit code become this command's. One job reads all inputs. A
    payload that fails is not tried again. Ctrl-C detaches; the task runs on.
    """
    from pilotage.cli.work import following
    from pilotage.client import Refused

    variables = [_secret(secret) for secret in secrets or []]
    needs = {"cores": cores, "ram": memory, "walltime": walltime, "jobs": array, "secrets": variables or None}
    document = _document(command, name, needs, inputs or [], outputs or [])
    with connect() as client:
        try:
            answer = client.submit_all([document])
        except Refused as error:
            raise BadInput(_faults(error)) from None
        (task,) = (task["id"] for task in answer["tasks"])
        warn(answer)
        (view,) = following.follow(client, [task], is_shown=not json_output, stderr=True)
        jobs = list(client.jobs(task, sort="state", limit=10_000))
        if json_output:
            show_json({"task": view, "jobs": jobs})
        else:
            _print_logs(client, task, sorted(jobs, key=lambda job: (job["state"] != "failed", job["id"])))
    if outputs and not json_output:
        echo(f"its outputs: pilotage fetch {task}", err=True)
    _fail_like(view, jobs)


def _document(
    command: list[str], name: str, needs: Mapping[str, Any], inputs: list[str], outputs: list[str]
) -> dict[str, Any]:
    """Return the task's document."""
    if inputs and needs["jobs"] is not None:
        raise BadInput("--array is for tasks without --input; a task file divides inputs by files_per_job")
    document = {
        "name": name or _name(command[0]),
        "command": command,
        "outputs": outputs,
        "ram_unit": "MB",
        "scouts": 0,
        "max_attempts": 1,
        **{field: value for field, value in needs.items() if value is not None},
    }
    if inputs:
        document |= {"inputs": [_input(text) for text in inputs], "files_per_job": ALL_FILES}
    return document


def _name(program: str) -> str:
    """Return a task's name made of the name of a program."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", PurePath(program).name).strip("-.")[:60] or "run"


def _input(text: str) -> dict[str, Any]:
    storage, colon, pattern = text.partition(":")
    return {"storages": [storage], "glob": pattern} if colon else {"glob": text}


def _secret(text: str) -> str | dict[str, str]:
    name, colon, variable = text.partition(":")
    return {"name": name, "as": variable} if colon else name


def _faults(error: "Refused") -> str:
    return "; ".join(f"{_option(fault.field)}: {fault.message}" for fault in error.faults) or str(error)


def _option(field: str) -> str:
    """Return the option of a field of a task."""
    first = re.split(r"[.\[]", field)[0]
    return OPTIONS.get(first, f"--{first}" if first in ("cores", "walltime", "name") else first)


def _print_logs(client: "Client", task: int, jobs: list[Any]) -> None:
    """Print what jobs wrote, each stream to its own. Of many jobs, each has a heading on standard error."""
    for job in jobs[:MOST_LOGS]:
        if len(jobs) > 1:
            echo(f"== job:{job['id']}, {state_of_job(job)} ==", err=True)
        for log in client.logs(f"job:{job['id']}")["logs"]:
            _print_stream(log, sys.stderr if log["stream"] == "stderr" else sys.stdout)
    if len(jobs) > MOST_LOGS:
        rest = plural(len(jobs) - MOST_LOGS, "more job")
        echo(f"logs of {rest}: pilotage logs {task} --limit {len(jobs)}", err=True)


def _print_stream(log: Any, stream: Any) -> None:
    end = 0
    for part in log["parts"]:
        if part["start"] > end:
            echo(f"[{part['start'] - end:,} bytes are not kept]", err=True)
        # A pipe takes the text as it is; a terminal would obey it.
        stream.write(visible(part["text"]) if stream.isatty() else part["text"])
        end = part["end"]
    stream.flush()


def _fail_like(view: Any, jobs: list[Any]) -> None:
    """Raise what the payload's failure is to the shell; nothing if the task has finished."""
    if view["state"] == "finished":
        return
    message = f"task {view['id']} {view['state']}: {view['error'].partition(chr(10))[0]}"
    codes = [job["exit_code"] for job in jobs if job["state"] == "failed" and job["exit_code"]]
    if not codes:
        raise CommandFailure(message)
    # A shell has 128 and the signal for what a signal has ended.
    code = codes[0] if codes[0] > 0 else 128 - codes[0]
    raise PayloadFailed(message, code if code < 256 else 1)
