"""Verbs on tasks under way and on single jobs: retry, set, hold, release, finish, cancel."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.exit_codes import exit_code
from pilotage.cli.terminal.output import Json, echo, show_json
from pilotage.cli.terminal.states import clause_of_task
from pilotage.cli.terminal.subjects import tasks_of, work_of
from pilotage.cli.terminal.task_filters import TaskFilters, with_filters
from pilotage.cli.work.bulk import Chosen, is_changeable
from pilotage.model.records.states import LIVE
from pilotage.model.rules.plain_states import PlainWord, clause, job_state, jobs_phrase, word_counts
from pilotage.model.rules.verbs import CANCEL, FINISH, OF_TASKS, RETRY, SET, Verb
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client

app = typer.Typer()

Tasks = Annotated[
    list[str] | None, typer.Argument(help="Tasks or workflows, by number or name.", metavar="[TASK...]")
]
Subjects = Annotated[
    list[str] | None,
    typer.Argument(
        help="Tasks or workflows by number or name, and jobs, such as job:345.", metavar="[TASK|job:ID...]"
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask before tasks chosen by options are changed.")
]


DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say which jobs, and where they would go.")]
Anyway = Annotated[bool, typer.Option("--anyway", help="Change jobs even if no queue would take them.")]


@app.command(help=RETRY.help, epilog=f"Example: {RETRY.example}")
@with_filters
def retry(
    filters: TaskFilters,
    subjects: Subjects = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="Change this field of the retried jobs. May be repeated."
        ),
    ] = None,
    dry_run: DryRun = False,
    anyway: Anyway = False,
    yes: Yes = False,
    json_output: Json = False,
) -> None:
    changed = _changes(changes or [])
    # A dry run changes nothing: there is nothing to ask.
    chosen = Chosen(subjects, filters, yes or dry_run)
    _each(chosen, RETRY, json_output, changed, dry_run=dry_run, anyway=anyway)


@app.command("set", help=SET.help, epilog=f"Example: {SET.example}")
@with_filters
def change(
    filters: TaskFilters,
    words: Annotated[
        list[str],
        typer.Argument(
            help="Tasks by number or name, jobs such as job:345, then fields as in a task file; "
            "memory=12000 is all that a job may use, in MB.",
            metavar="[TASK|job:ID...] FIELD=VALUE...",
        ),
    ],
    dry_run: DryRun = False,
    anyway: Anyway = False,
    yes: Yes = False,
    json_output: Json = False,
) -> None:
    changes = _changes([word for word in words if "=" in word])
    subjects = [word for word in words if "=" not in word]
    if not changes:
        raise BadInput("give tasks or jobs, then fields: pilotage set 12 ram=4000 walltime=7200")
    chosen = Chosen(subjects, filters, yes or dry_run)
    _each(chosen, SET, json_output, changes, dry_run=dry_run, anyway=anyway)


def _add_command(verb: Verb) -> None:
    @app.command(verb.name, help=verb.help, epilog=f"Example: {verb.example}")
    @with_filters
    def of_tasks(
        filters: TaskFilters, tasks: Tasks = None, yes: Yes = False, json_output: Json = False
    ) -> None:
        _each(Chosen(tasks, filters, yes), verb, json_output)


for _verb in OF_TASKS:
    _add_command(_verb)


@app.command(help=CANCEL.help, epilog=f"Example: {CANCEL.example}")
@with_filters
def cancel(
    filters: TaskFilters, subjects: Subjects = None, yes: Yes = False, json_output: Json = False
) -> None:
    _each(Chosen(subjects, filters, yes), CANCEL, json_output)


def _expand(client: "Client", subjects: list[str], verb: str) -> list[str]:
    """Return the same with the tasks of workflows that a verb can change; the last ones first to cancel."""
    words: list[str] = []
    for subject in subjects:
        work = None if subject.startswith("job:") else work_of(client, subject)
        if work is None or work.kind == "task":
            words.append(f"{work.number}" if work else subject)
            continue
        views = [view for view in tasks_of(client, work) if is_changeable(verb, view)]
        if not views:
            raise CommandFailure(f"no task of workflow {work.number} is there to {verb}")
        # What follows goes first, so that the end of a task before it starts nothing.
        ordered = reversed(views) if verb == "cancel" else views
        words += [str(view["id"]) for view in ordered]
    return list(dict.fromkeys(words))


def _changes(words: list[str]) -> dict[str, Any]:
    """Return changed fields by name."""
    from pilotage.cli.terminal.what_if_options import parsed

    hypothesis = parsed(words)
    if hypothesis["queues"]:
        queue, fields = next(iter(hypothesis["queues"].items()))
        field = next(iter(fields))
        raise BadInput(
            f"{queue}.{field} is no whole field of a task; give one, as in ram=2000, "
            "and change queues with pilotage federation"
        )
    changes: dict[str, Any] = hypothesis["task"]
    return changes


def _describe_move(verb: Verb, answer: Any, dry_run: bool) -> str:
    """Return how many jobs a verb moved, and their states before; empty if it does not say."""
    if not verb.outcome or (jobs := answer.get("jobs")) is None:
        return ""
    if verb is FINISH:
        return _describe_end(answer["task"]["jobs"], jobs)
    count = sum(jobs.values())
    before = f" ({jobs_phrase(jobs)} before)" if count else ""
    return f", {plural(count, 'job')} {'would be ' if dry_run else ''}{verb.outcome}{before}"


def _describe_end(jobs: Mapping[str, int], moved: Mapping[str, int]) -> str:
    """Return with how many jobs' results a task ends, and how many it cancelled: those that had not ended."""
    words = word_counts(jobs)
    kept = words[PlainWord.DONE] + words[PlainWord.FINISHING]
    cancelled = sum(count for state, count in moved.items() if state in LIVE["job"])
    rest = f"; {plural(cancelled, 'job')} cancelled" if cancelled else ""
    return f": it ends with the results of {plural(kept, 'job')}{rest}"


def _each(chosen: Chosen, verb: Verb, json_output: bool, *changes: Any, **options: bool) -> None:
    """Do it to each by the client's method of the verb's name, which gets the changes and options.

    One that is refused leaves the others to do, a server that is away fails them all.
    """
    answers: list[Any] = []
    failures: list[str] = []
    with connect() as client:
        # Find all of them first: a word that is none stops the command before it has done anything.
        subjects = [
            subject
            for word in _expand(client, chosen.subjects(client, verb.name), verb.name)
            for subject in _try(failures, client.subject, word)
        ]
        for subject in subjects:
            request = partial(getattr(client, verb.name), **options)
            for answer in _try(failures, request, subject, *changes):
                answers.append(answer)
                if not json_output:
                    # A verb on a job answers with the job, which names its task by number.
                    view = answer["task"] if subject.kind == "task" and verb is not CANCEL else answer
                    state = f" {_clause(view)}" if "state" in view else ""
                    echo(f"{subject}{state}{_describe_move(verb, answer, options.get('dry_run', False))}")
                    for line in answer.get("lines", ()):
                        echo(line)
    if json_output:
        show_json({"done": answers, "refused": failures})
    if failures:
        raise CommandFailure("; ".join(failures))


def _clause(view: Any) -> str:
    return clause_of_task(view) if "jobs" in view else clause(job_state(view["state"]))


def _try(failures: list[str], call: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return the answer of a call, or nothing if it is refused: then keep the reason."""
    from pilotage.client import ClientError

    try:
        return [call(*arguments)]
    except ClientError as error:
        if exit_code(error) != CommandFailure.code:
            raise
        failures.append(str(error))
        return []
