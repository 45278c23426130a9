"""Secrets for payloads: set, list and remove them. No command shows a value, or takes one as an argument."""

import re
import sys
from contextlib import closing
from typing import Annotated

import typer

from pilotage.cli.configuration import connect, has_store, settings, using_store
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Column, Json, ago, echo, is_interactive, show, show_json
from pilotage.model.values.phrases import plural

app = typer.Typer(help="Keep secrets that your payloads get.", no_args_is_help=True)

SECRETS = (Column("secret"), Column("set", number=True))
MOST_READ = 1 << 20
"""Most bytes to read from a pipe. The server limits the size of a secret."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")

Name = Annotated[str, typer.Argument(help="Name of the secret.")]


@app.command("set", epilog="Example: pilotage secrets set API_TOKEN < token.txt")
def set_(name: Name, json_output: Json = False) -> None:
    """Keep a secret: from a pipe, or typed at a hidden prompt.

    The line end after a single line is left out. Tasks that were held for the secret go on.
    """
    _check_name(name)
    value = _read_prompt(name) if is_interactive() else _read_pipe()
    with connect() as client:
        answer = client.set_secret(name, value)
    if json_output:
        show_json(answer)
        return
    echo(f"the secret {name} is set")
    if answer["released"]:
        echo(f"released: {', '.join(f'task {task}' for task in answer['released'])}")


@app.command("list", epilog="Example: pilotage secrets list")
def list_(json_output: Json = False) -> None:
    """List your secrets: names, and when each was set. Values are never shown."""
    with connect() as client:
        page = client.secrets()
    if json_output:
        show_json(page)
        return
    rows = [(secret["name"], f"{ago(secret['set_at'])} ago") for secret in page]
    show(SECRETS, rows, "You have no secrets.")


@app.command(epilog="Example: pilotage secrets remove API_TOKEN")
def remove(name: Name, json_output: Json = False) -> None:
    """Remove a secret. Jobs that need it wait until it is set again."""
    _check_name(name)
    with connect() as client:
        client.remove_secret(name)
    if json_output:
        show_json({"name": name})
        return
    echo(f"the secret {name} is removed")


@app.command(epilog="Example: pilotage secrets rotate")
def rotate(
    drop_lost: Annotated[
        bool,
        typer.Option("--drop-lost", help="Remove secrets with a lost key; their owners set them again."),
    ] = False,
    json_output: Json = False,
) -> None:
    """Encrypt all secrets with a new key, for operators, on the server's machine.

    The server reads the new file by itself. Copy it to the other servers of the same store.
    """
    from pilotage.flow.outside.secret_keys import FILE, KeyMissing, SecretKeys, SecretSpoilt
    from pilotage.store import Store
    from pilotage.store.audit.commands import commanded

    configuration = settings()
    if not has_store(configuration.store):
        raise BadInput("there is no store here; run this on the server's machine")
    keys = SecretKeys(configuration.home / FILE)
    try:
        with (
            using_store(configuration.store),
            closing(Store.open(configuration.store)) as store,
            commanded(store, "rotate keys", "secrets", drop_lost=drop_lost),
        ):
            lost = keys.drop_lost(store.secrets) if drop_lost else ()
            count = keys.rotate(store.secrets)
    except (KeyMissing, SecretSpoilt) as error:
        raise CommandFailure(str(error)) from None
    if json_output:
        removed = [{"owner": secret.owner, "vo": secret.vo, "name": secret.name} for secret in lost]
        show_json({"secrets": count, "file": str(configuration.home / FILE), "removed": removed})
        return
    for secret in lost:
        echo(f"removed {secret.name} of {secret.owner}: its key is lost")
    echo(f"{plural(count, 'secret')} encrypted with a new key: {configuration.home / FILE}")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadInput(
            "a secret's name has letters, digits, _, . and -, 100 at most; its value comes by a pipe"
        )


def _read_prompt(name: str) -> str:
    return str(typer.prompt(f"value of {name} (hidden)", hide_input=True, err=True))


def _read_pipe() -> str:
    if sys.stdin is None:
        raise BadInput("give the value by a pipe: pilotage secrets set NAME < file")
    content = sys.stdin.buffer.read(MOST_READ + 1)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise BadInput("the value is no text in UTF-8; give bytes in base64") from None
    line = text.removesuffix("\n").removesuffix("\r")
    return text if "\n" in line else line
