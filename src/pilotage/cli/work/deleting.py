"""Delete tasks and workflows that have ended."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.terminal.output import Json, ask, echo, show_json
from pilotage.cli.terminal.subjects import TaskOrWorkflow, work_of
from pilotage.model.rules.plain_states import TASK_STATES
from pilotage.model.rules.verbs import DELETE
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client

app = typer.Typer()


@app.command(help=DELETE.help, epilog=f"Example: {DELETE.example}")
def delete(
    subjects: Annotated[
        list[str], typer.Argument(help="Tasks or workflows, by number or name.", metavar="TASK|WORKFLOW...")
    ],
    outputs: Annotated[bool, typer.Option("--outputs", help="Delete their outputs, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json_output: Json = False,
) -> None:
    with connect() as client:
        chosen = list(dict.fromkeys(work_of(client, word) for word in subjects))
        # All of them first: one that cannot go stops the command before it has done anything.
        plans = [_deleted(client, work, outputs=outputs, dry_run=True) for work in chosen]
        if not json_output:
            for work, plan in zip(chosen, plans, strict=True):
                _list(work, plan)
        if dry_run:
            answers = plans
        else:
            if not yes:
                ask(f"delete {_phrase(chosen)}")
            answers = [_deleted(client, work, outputs=outputs) for work in chosen]
    if json_output:
        show_json({"deleted": [] if dry_run else answers, "would_go": answers if dry_run else []})
    elif not dry_run:
        echo(f"deleted: {_phrase(chosen)}")


def _deleted(client: "Client", work: TaskOrWorkflow, **options: bool) -> Any:
    return client.delete(f"{work.kind}:{work.number}", **options)


def _phrase(chosen: list[TaskOrWorkflow]) -> str:
    kinds = [work.kind for work in chosen]
    counts = [(kinds.count(kind), kind) for kind in dict.fromkeys(kinds)]
    return " and ".join(plural(count, kind) for count, kind in counts)


def _list(work: TaskOrWorkflow, plan: Any) -> None:
    if work.kind == "task":
        (task,) = plan["tasks"]
        echo(f"task {task['id']} {task['name']} ({TASK_STATES[task['state']]}):")
    else:
        echo(f"workflow {work.number} with {plural(len(plan['tasks']), 'task')}:")
    for line in plan["lines"]:
        echo(f"  {line}")
