"""Tokens for people."""

import re
import time
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from .configuration import connect, has_store, settings, using_store
from .errors import BadInput
from .output import Column, Json, ago, echo, show, show_json
from .paging import After, Limit, hint_next

if TYPE_CHECKING:
    from pilotage.settings import Settings

app = typer.Typer(help="Make, list and revoke people's tokens.", no_args_is_help=True)

TOKENS = (
    Column("token"),
    Column("role"),
    Column("name"),
    Column("vo"),
    Column("made", essential=False, number=True),
    Column("ends in", number=True),
)


class Role(StrEnum):
    """Roles of tokens: users have their own tasks, operators everything, sites their advertisement."""

    USER = "user"
    OPERATOR = "operator"
    SITE = "site"


@app.command(epilog="Example: pilotage token create --role user --name ada --vo atlas --expires 30")
def create(
    name: Annotated[str, typer.Option(help="Who bears it; of a site's, the site.")],
    role: Annotated[Role, typer.Option(help="What the bearer may do.")] = Role.USER,
    vo: Annotated[str, typer.Option(help="The bearer's virtual organisation.")] = "",
    group: Annotated[str, typer.Option(help="The bearer's group in it.")] = "",
    vo_role: Annotated[str, typer.Option(help="The bearer's role in it.")] = "",
    expires: Annotated[
        float, typer.Option(min=0, max=36_500, help="Days until it expires; 0 for never.")
    ] = 365.0,
    json_output: Json = False,
) -> None:
    """Make a token and print it. It is not shown again.

    This machine's store makes it if there is one. Otherwise the server does, and requires an operator's
    token.
    """
    if not name.strip():
        raise BadInput("--name is empty; say who bears the token")
    seconds = expires * 86400 or None
    identity = {"name": name, "vo": vo, "group": group, "vo_role": vo_role}
    known = settings()
    if has_store(known.store):
        token = _made_in_store(known, role, identity, seconds)
    else:
        with connect(known) as client:
            token = client.make_token(**identity, role=role.value, expires_in=seconds)
    if json_output:
        show_json({"token": token})
    else:
        typer.echo(token)


@app.command("list", epilog="Example: pilotage token list")
def list_(limit: Limit = 100, after: After = "", json_output: Json = False) -> None:
    """List the unexpired tokens of people, newest first. The secrets themselves are not stored."""
    with connect() as client:
        found = client.tokens(after=after or None, limit=limit)
    if json_output:
        show_json(found)
        return
    rows = [
        (one["id"], one["role"], one["name"], one["vo"], f"{ago(one['created'])} ago", _left(one["expires"]))
        for one in found
    ]
    show(TOKENS, rows, "There are no tokens.")
    hint_next(found, "token")


def _left(expires: float | None) -> str:
    # ago() expects a moment in the past: mirror this one, which lies ahead.
    return "never" if expires is None else ago(2 * time.time() - expires)


@app.command(epilog="Example: pilotage token revoke 3f1c09aa7be2")
def revoke(
    tokens: Annotated[list[str], typer.Argument(help="Tokens, as the list names them.", metavar="TOKEN...")],
    json_output: Json = False,
) -> None:
    """Revoke tokens of people. Within 5 s the server refuses requests that use them."""
    for token in tokens:
        if not re.fullmatch("[0-9a-f]{12,64}", token):
            raise BadInput(f"{token} names no token; pilotage token list names them")
    with connect() as client:
        revoked = [client.revoke_token(token) for token in tokens]
    if json_output:
        show_json({"tokens": revoked})
        return
    for one in revoked:
        echo(f"token {one['id']} of {one['name']} is revoked")


def _made_in_store(settings: "Settings", role: Role, identity: dict[str, str], seconds: float | None) -> str:
    from pilotage.model.values.identity import Credential, Identity, UnfitName
    from pilotage.store import Store

    expires = None if seconds is None else time.time() + seconds
    credential = Credential(role=role.value, identity=Identity(**identity), expires=expires)
    with using_store(settings.store), closing(Store.open(settings.store)) as store:
        try:
            return store.tokens.create(credential)
        except UnfitName as error:
            raise BadInput(f"--{error.field.replace('_', '-')} {error}") from error
