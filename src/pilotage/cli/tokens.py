"""Tokens for people."""

import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .configuration import settings, using_store
from .errors import BadInput
from .output import Json, show_json

if TYPE_CHECKING:
    from pilotage.settings import Settings

app = typer.Typer(help="Make tokens, by which the server knows people.", no_args_is_help=True)


@app.callback()
def _tokens() -> None:
    """Keeps ``create`` a command of its own while it is the only one."""


class Role(StrEnum):
    """What a token lets its bearer do: users their own tasks, operators everything."""

    USER = "user"
    OPERATOR = "operator"


@app.command(epilog="Example: pilotage token create --role user --name ada --vo atlas --expires 30")
def create(
    name: Annotated[str, typer.Option(help="Who bears it.")],
    role: Annotated[Role, typer.Option(help="What the bearer may do.")] = Role.USER,
    vo: Annotated[str, typer.Option(help="The bearer's virtual organisation.")] = "",
    group: Annotated[str, typer.Option(help="The bearer's group in it.")] = "",
    vo_role: Annotated[str, typer.Option(help="The bearer's role in it.")] = "",
    expires: Annotated[
        float | None, typer.Option(min=0.001, help="Days until it expires; never without.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Make a token and print it; it is not shown again.

    Made in the store where this machine has it, else by the server, which wants an operator's token.
    """
    if not name.strip():
        raise BadInput("--name is empty; say who bears the token")
    seconds = None if expires is None else expires * 86400
    identity = {"name": name, "vo": vo, "group": group, "vo_role": vo_role}
    known = settings()
    if _has_store(known):
        token = _made_in_store(known, role.value, identity, seconds)
    else:
        from .client import Client

        with Client(known) as client:
            body = {"role": role.value, **identity, "expires_in": seconds}
            token = client.send("POST", "/tokens", body)["token"]
    if json_output:
        show_json({"token": token})
    else:
        typer.echo(token)


def _has_store(settings: "Settings") -> bool:
    """Whether the store is within reach: a server's, or a file that is there."""
    kind, _, path = settings.store.partition(":///")
    return kind != "sqlite" or Path(path).exists()


def _made_in_store(settings: "Settings", role: str, identity: dict[str, str], seconds: float | None) -> str:
    from pilotage.model.identity import Credential, Identity
    from pilotage.store import Store

    expires = None if seconds is None else time.time() + seconds
    credential = Credential(
        role="operator" if role == "operator" else "user", identity=Identity(**identity), expires=expires
    )
    with using_store(settings.store), closing(Store.open(settings.store)) as store:
        return store.tokens.create(credential)
