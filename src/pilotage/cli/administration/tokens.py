"""Tokens for people."""

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.configuration import connect, has_store, settings, using_store
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import After, Column, Json, Limit, ago, echo, hint_next, show, show_json

if TYPE_CHECKING:
    from pilotage.settings import Settings

app = typer.Typer(help="Make, list and revoke people's tokens.", no_args_is_help=True)

TOKENS = (
    Column("token"),
    Column("role"),
    Column("name"),
    Column("vo"),
    Column("for", essential=False),
    Column("made", essential=False, number=True),
    Column("used", essential=False, number=True),
    Column("ends in", number=True),
)


To = Annotated[Path | None, typer.Option("--to", help="Write it into this file, which only you can read.")]


class Role(StrEnum):
    """Roles of tokens."""

    USER = "user"
    MANAGER = "manager"
    SITE_ADMIN = "site-admin"
    MONITOR = "monitor"
    OPERATOR = "operator"
    SITE = "site"


@app.command(epilog="Example: pilotage token create --role user --name ada --vo atlas --to ada.token")
def create(
    name: Annotated[str, typer.Option(help="Who bears it; of a site's, the site.")],
    role: Annotated[Role, typer.Option(help="What the bearer may do.")] = Role.USER,
    vo: Annotated[str, typer.Option(help="The bearer's virtual organisation.")] = "",
    group: Annotated[str, typer.Option(help="The bearer's group in it.")] = "",
    vo_role: Annotated[str, typer.Option(help="The bearer's role in it.")] = "",
    sites: Annotated[
        list[str] | None, typer.Option("--site", help="A site of a site admin's; repeat it for more.")
    ] = None,
    expires: Annotated[
        float, typer.Option(min=0, max=36_500, help="Days until it expires; 0 for never.")
    ] = 365.0,
    purpose: Annotated[str, typer.Option("--for", help="What it is for, in a few words.")] = "",
    to: To = None,
    json_output: Json = False,
) -> None:
    """Make a token, and print it or write it into a file. It is not shown again.

    This machine's store makes it if there is one. Otherwise the server does, and requires an operator's
    token.
    """
    if not name.strip():
        raise BadInput("--name is empty; say who bears the token")
    seconds = expires * 86400 or None
    identity = {"name": name, "vo": vo, "group": group, "vo_role": vo_role}
    make = partial(_make_token, role, identity, seconds, purpose, sites or [])
    _give(make, to, f"the token of {name}, a {role.value}'s", json_output)


def _give(make: Callable[[], str], to: Path | None, description: str, json_output: bool) -> None:
    """Print a new token, or write it into a file."""
    if to is not None:
        _write_private(to, make)
        if json_output:
            show_json({"file": str(to)})
        else:
            echo(f"{to}: {description}; only you can read it")
    elif json_output:
        show_json({"token": make()})
    else:
        typer.echo(make())


@app.command(epilog="Example: pilotage token rotate 3f1c09aa7be2 --to ada.token")
def rotate(
    token: Annotated[str, typer.Argument(help="The token, as the list names it.")],
    overlap: Annotated[
        float, typer.Option(min=0, max=30, help="Days for which the old one is accepted beside it.")
    ] = 1.0,
    to: To = None,
    json_output: Json = False,
) -> None:
    """Make a token like another, which lasts as long. The old one ends after the overlap."""
    _refuse_no_id(token)
    with connect() as client:
        make = partial(client.rotate_token, token, overlap=overlap * 86400)
        _give(make, to, f"the token that follows {token}", json_output)


def _refuse_no_id(token: str) -> None:
    if not re.fullmatch("[0-9a-f]{12,64}", token):
        raise BadInput(f"{token} names no token; pilotage token list names them")


def _make_token(
    role: Role, identity: dict[str, str], seconds: float | None, purpose: str, sites: Sequence[str]
) -> str:
    config = settings()
    if has_store(config.store):
        return _make_in_store(config, role, identity, seconds, purpose, sites)
    with connect(config) as client:
        return client.make_token(
            **identity, role=role.value, expires_in=seconds, purpose=purpose, sites=sites
        )


def _write_private(file: Path, make: Callable[[], str]) -> None:
    """Write a token into a file of mode 600, in place of one there.

    If the file cannot be written, ``make`` is not called.
    """
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "w") as stream:
                stream.write(f"{make()}\n")
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise CommandFailure(f"{file} cannot be written: {error.strerror}") from error


@app.command("list", epilog="Example: pilotage token list")
def list_(limit: Limit = 100, after: After = "", json_output: Json = False) -> None:
    """List the unexpired tokens of people, newest first. The secrets themselves are not stored."""
    with connect() as client:
        tokens = client.tokens(after=after or None, limit=limit)
    if json_output:
        show_json(tokens)
        return
    rows = [
        (
            token["id"],
            token["role"],
            token["name"],
            token["vo"],
            token["purpose"],
            f"{ago(token['created'])} ago",
            "never" if token["used"] is None else f"{ago(token['used'])} ago",
            _time_left(token["expires"]),
        )
        for token in tokens
    ]
    show(TOKENS, rows, "There are no tokens.")
    hint_next(tokens, "token")


def _time_left(expires: float | None) -> str:
    # ago() expects a past time, so mirror this future one.
    return "never" if expires is None else ago(2 * time.time() - expires)


@app.command(epilog="Example: pilotage token revoke 3f1c09aa7be2")
def revoke(
    tokens: Annotated[list[str], typer.Argument(help="Tokens, as the list names them.", metavar="TOKEN...")],
    json_output: Json = False,
) -> None:
    """Revoke tokens of people. Within 5 s the server refuses requests that use them."""
    for token in tokens:
        _refuse_no_id(token)
    with connect() as client:
        revoked = [client.revoke_token(token) for token in tokens]
    if json_output:
        show_json({"tokens": revoked})
        return
    for record in revoked:
        echo(f"token {record['id']} of {record['name']} is revoked")


def _make_in_store(
    settings: "Settings",
    role: Role,
    identity: dict[str, str],
    seconds: float | None,
    purpose: str,
    sites: Sequence[str],
) -> str:
    from pilotage.model.values.identity import Credential, Identity, UnfitName
    from pilotage.store import Store
    from pilotage.store.audit.commands import commanded

    expires = None if seconds is None else time.time() + seconds
    credential = Credential(
        role=role.value, identity=Identity(**identity), expires=expires, sites=frozenset(sites)
    )
    with using_store(settings.store), closing(Store.open(settings.store)) as store:
        try:
            store.refuse_unknown_sites(credential.sites)
            with commanded(store, "make token", f"person {identity['name']}", role=role.value):
                return store.tokens.create(credential, purpose)
        except UnfitName as error:
            option = error.field.replace("_", "-").removesuffix("s")
            raise BadInput(f"--{option} {error}") from error
