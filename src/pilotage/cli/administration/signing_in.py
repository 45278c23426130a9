"""Sign in with an identity provider, and see who one is."""

import time
from dataclasses import replace
from typing import Annotated, Any

import typer

from pilotage.cli.configuration import connect, settings
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Json, ago, echo, show_json

app = typer.Typer()


@app.command(epilog="Example: pilotage login")
def login(
    issuer: Annotated[
        str | None, typer.Argument(help="The provider; needed if the server accepts several.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Sign in with an identity provider that the server accepts.

    It prints an address and a code. Open the address in any browser, on any device, and confirm the code.
    """
    from pilotage.client import sign_in

    config = settings()
    # A token from before may have expired, and is not needed.
    with connect(replace(config, token="", token_file=None)) as client:
        offer = _chosen([dict(offer) for offer in client.issuers()], issuer)
    code = sign_in.begin(config.url, offer)
    echo(f"open {code.address_with_code or code.address}", err=True)
    echo(f"and confirm the code {code.code}, if it asks; waiting ...", err=True)
    new = sign_in.wait(code)
    # The server may refuse the token: then nothing is kept.
    with connect(
        replace(config, token=new.access_token, token_file=None, token_place=offer["name"])
    ) as client:
        caller = client.whoami()
    sign_in.save(config.home, new)
    if json_output:
        show_json(caller)
        return
    echo(f"you are {_described(caller)}")
    if config.token_place == "PILOTAGE_TOKEN":
        echo("PILOTAGE_TOKEN is set, and comes first: unset it to use the sign-in", err=True)


def _chosen(offers: list[dict[str, Any]], name: str | None) -> dict[str, Any]:
    """Return the offer of a name. Raises ``BadInput`` if the choice is not clear."""
    if not offers:
        raise CommandFailure("the server accepts no sign-in; an operator gives you a token: pilotage token")
    names = ", ".join(offer["name"] for offer in offers)
    if name is None and len(offers) > 1:
        raise BadInput(f"say with which provider: pilotage login NAME; there are {names}")
    matching = [offer for offer in offers if name in (None, offer["name"])]
    if not matching:
        raise BadInput(f"the server accepts no sign-in of {name}; there are {names}")
    return matching[0]


@app.command(epilog="Example: pilotage whoami")
def whoami(json_output: Json = False) -> None:
    """Show who you are for the server, and what your token allows."""
    config = settings()
    with connect(config) as client:
        caller = client.whoami()
    if json_output:
        show_json(caller)
        return
    echo(f"you are {_described(caller)}")
    echo(f"your token, of {config.token_place}, {_end(caller['expires'])}")


def _described(caller: Any) -> str:
    parts = [caller["name"]]
    parts += [f"{word} {caller[field]}" for word, field in _WORDS.items() if caller[field]]
    parts += [f"of {', '.join(caller['sites'])}"] if caller.get("sites") else []
    rights = caller["rights"]
    if len(rights) < _ALL_RIGHTS:
        parts.append(f"with a token to {' and '.join(rights) or 'do nothing'} only")
    return ", ".join(parts)


_ALL_RIGHTS = 4
_WORDS = {"VO": "vo", "group": "group", "role in it": "vo_role", "role": "role"}


def _end(expires: float | None) -> str:
    # ago() expects a past time, so mirror this future one.
    return "never ends" if expires is None else f"ends in {ago(2 * time.time() - expires)}"


@app.command(epilog="Example: pilotage logout")
def logout(json_output: Json = False) -> None:
    """End the sign-in, here and at the provider. Other tokens stay."""
    from pilotage.client import sign_in

    name = sign_in.end(settings().home)
    if json_output:
        show_json({"signed_out": name})
    else:
        echo(f"signed out of {name}" if name else "you were not signed in")
