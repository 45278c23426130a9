"""Tokens for people. Pilots get theirs when they are submitted."""

from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Path, Response
from pydantic import BaseModel, Field

from pilotage.model.values.identity import MOST_SITES, Credential, Identity, PersonRole
from pilotage.model.values.types import FINITE
from pilotage.server.api.edge.access import FOR_OPERATORS, FOR_OPERATORS_NOW
from pilotage.server.api.edge.answers import PageOfList, answer, documented, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, After, Limit, Text, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.store import PersonToken, by_time, named_page

router = APIRouter(prefix=f"{PREFIX}/tokens", tags=["tokens"], route_class=MeasuredRoute)


class Bearer(RequestBody):
    """The bearer of a token, a site by its name. ``expires_in`` is in s; never if left out."""

    role: Literal[PersonRole, "site"] = "user"
    name: Annotated[Text, Field(min_length=1)]
    vo: Text = ""
    group: Text = ""
    vo_role: Text = ""
    purpose: Text = ""
    sites: list[Text] = Field(default=[], max_length=MOST_SITES, description="Of a site admin.")
    expires_in: Annotated[float, Field(gt=0, le=36_500 * 86_400), FINITE] | None = None


class Token(BaseModel):
    """The token itself, shown only now."""

    token: str


class PeopleTokens(PageOfList):
    """Tokens of people, newest first."""

    tokens: list[PersonToken]


_NO_TOKEN = "there is no token {}; pilotage token list shows those of people"

TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{12,64}$", description="as the list of tokens names it")]


@router.get("", dependencies=[FOR_OPERATORS], responses=documented(PeopleTokens))
def get_tokens(runtime: TheRuntime, after: After = "", limit: Limit = 100) -> Response:
    """List the unexpired tokens of people, newest first. The secrets are shown nowhere."""
    tokens = runtime.store.tokens.people()
    return listed("tokens", named_page(tokens, _place, after, limit))


def _place(token: PersonToken) -> str:
    return by_time(token.created, token.id, newest_first=True)


@router.delete("/{token}", dependencies=[FOR_OPERATORS_NOW], responses=documented(PersonToken, 404))
def delete_token(token: TokenId, runtime: TheRuntime) -> Response:
    """Revoke a token of a person. After at most 5 s, the server refuses requests that use it."""
    revoked = runtime.store.tokens.revoke(token)
    if revoked is None:
        raise HTTPException(404, _NO_TOKEN.format(token))
    return answer(revoked)


@router.post("", status_code=201, dependencies=[FOR_OPERATORS_NOW], responses=documented(Token, status=201))
def post_token(body: Bearer, runtime: TheRuntime) -> Response:
    """Make a token."""
    identity = Identity(name=body.name, vo=body.vo, group=body.group, vo_role=body.vo_role)
    expires = None if body.expires_in is None else runtime.clock() + body.expires_in
    credential = Credential(role=body.role, identity=identity, expires=expires, sites=frozenset(body.sites))
    runtime.store.refuse_unknown_sites(credential.sites)
    return answer({"token": runtime.store.tokens.create(credential, body.purpose)}, 201)


class Rotation(RequestBody):
    """For how many seconds the old token is accepted beside the new one."""

    overlap: Annotated[
        float, Field(ge=0, le=30 * 86_400, description="s for which the old token is accepted too"), FINITE
    ] = 86_400.0


@router.post(
    "/{token}/rotate",
    status_code=201,
    dependencies=[FOR_OPERATORS_NOW],
    responses=documented(Token, 404, status=201),
)
def rotate_token(token: TokenId, body: Rotation, runtime: TheRuntime) -> Response:
    """Make a token like this one, which lasts as long. The old one ends after the overlap."""
    new = runtime.store.tokens.rotate(token, runtime.clock() + body.overlap)
    if new is None:
        raise HTTPException(404, _NO_TOKEN.format(token))
    return answer({"token": new}, 201)
