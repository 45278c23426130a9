"""Notifications: the sent ones, a person's own receivers, the secret of their webhooks, and a test."""

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import After, Column, Json, Limit, ago, echo, hint_next, show, show_json
from pilotage.cli.terminal.subjects import task_number

app = typer.Typer(
    help="Show the notifications about tasks, and choose their receivers.", no_args_is_help=True
)

NOTIFICATIONS = (
    Column("id", number=True),
    Column("task", number=True),
    Column("topic"),
    Column("receiver"),
    Column("state"),
    Column("since", number=True),
    Column("error", essential=False),
)

TEST_TIMEOUT = 60.0
"""Seconds that the test waits for its notifications."""

Url = Annotated[list[str], typer.Option("--url", metavar="URL", help="A webhook; may be repeated.")]
Command = Annotated[
    list[str], typer.Option("--command", metavar="NAME", help="A command that the server's operator allows.")
]
Email = Annotated[list[str], typer.Option("--email", metavar="ADDRESS", help="An e-mail address.")]


@app.command("list", epilog="Example: pilotage notify list --task 12")
def list_(
    task: Annotated[str, typer.Option(help="Only notifications about this task, by number or name.")] = "",
    limit: Limit = 100,
    after: After = "",
    json_output: Json = False,
) -> None:
    """List notifications, newest first, with receiver and state."""
    with connect() as client:
        number = task_number(client, task) if task else 0
        page = client.notifications(task=number, limit=limit, after=after or None)
    if json_output:
        show_json(page)
    else:
        _show(page)
        hint_next(page, "notification")


@app.command("set", epilog="Example: pilotage notify set --email ada@example.org --on end --on failure")
def set_(
    url: Url = [],  # noqa: B006
    command: Command = [],  # noqa: B006
    email: Email = [],  # noqa: B006
    on: Annotated[
        list[str], typer.Option("--on", metavar="TOPIC", help="end, failure or held; all by default.")
    ] = [],  # noqa: B006
    json_output: Json = False,
) -> None:
    """Set the receivers of news about your tasks that name none. Without options: none."""
    with connect() as client:
        document = client.set_notifications(_receivers(url, command, email, on))
    _settings(document, json_output)


@app.command("show", epilog="Example: pilotage notify show")
def show_settings(json_output: Json = False) -> None:
    """Show the receivers of news about your tasks that name none."""
    with connect() as client:
        document = client.notification_settings()
    _settings(document, json_output)


@app.command(epilog="Example: pilotage notify secret")
def secret(json_output: Json = False) -> None:
    """Make the secret that signs your webhooks, and print it. It is not shown again; an old one ends."""
    with connect() as client:
        value = client.make_webhook_secret()
    if json_output:
        show_json({"secret": value})
    else:
        typer.echo(value)


@app.command("test", epilog="Example: pilotage notify test --url https://hooks.example.org/me")
def send_test(
    url: Url = [],  # noqa: B006
    command: Command = [],  # noqa: B006
    email: Email = [],  # noqa: B006
    json_output: Json = False,
) -> None:
    """Send a test to these receivers, or to your own, and show which took it. Ends with 1 unless all did."""
    with connect() as client:
        ids = client.test_notifications(_receivers(url, command, email))
        until = time.monotonic() + TEST_TIMEOUT
        while True:
            recent = client.notifications(limit=1000)
            tests = [notification for notification in recent if notification["id"] in ids]
            if not any(_is_open(notification) for notification in tests) or time.monotonic() > until:
                break
            time.sleep(0.3)
    if json_output:
        show_json({"notifications": tests})
    else:
        _show(tests)
    if [notification["state"] for notification in tests] != ["sent"] * len(ids):
        raise CommandFailure("not every receiver took the test")


def _is_open(notification: Any) -> bool:
    """Return whether its first attempt still waits or runs, and no limit delays it."""
    return (
        notification["attempt"] == 1
        and notification["state"] in ("waiting", "sending")
        and not notification["error"]
    )


def _receivers(
    url: Sequence[str], command: Sequence[str], email: Sequence[str], on: Sequence[str] = ()
) -> list[dict[str, Any]]:
    if unknown := sorted({*on} - {"end", "failure", "held"}):
        raise BadInput(f"--on {unknown[0]}: give end, failure or held")
    topics = {"on": list(on)} if on else {}
    named = (("url", url), ("command", command), ("email", email))
    return [{kind: value, **topics} for kind, values in named for value in values]


def _settings(document: Any, json_output: bool) -> None:
    if json_output:
        show_json(document)
        return
    for rule in document["notify"]:
        receiver = rule["url"] or rule["email"] or f"command {rule['command']}"
        echo(f"{receiver}: {', '.join(rule['on'])}")
    if not document["notify"]:
        echo("Your tasks that name no receiver have none; set one: pilotage notify set")
    secret_time = document["secret_made"]
    echo(
        f"Webhooks are signed with the secret made {ago(secret_time)} ago."
        if secret_time
        else "Webhooks are not signed: pilotage notify secret"
    )


def _show(notifications: Sequence[Any]) -> None:
    rows = [
        (
            notification["id"],
            notification["task"] or "-",
            notification["topic"],
            notification["receiver"].partition(":")[2],
            notification["state"],
            f"{ago(notification['since'])} ago",
            notification["error"],
        )
        for notification in notifications
    ]
    show(NOTIFICATIONS, rows, "There are no notifications.")
