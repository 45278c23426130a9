"""Tokens for people. Pilots are given theirs when they are submitted."""

from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from pilotage.model.identity import Credential, Identity

from .access import FOR_OPERATORS
from .answers import answer, documented
from .parts import Text, TheRuntime

router = APIRouter(prefix="/tokens", tags=["tokens"])


class Bearer(BaseModel, extra="forbid"):
    """Who the token stands for; ``expires_in`` in s, never where it is left out."""

    role: Literal["user", "operator"] = "user"
    name: Annotated[Text, Field(min_length=1)]
    vo: Text = ""
    group: Text = ""
    vo_role: Text = ""
    expires_in: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Token(BaseModel):
    """The token itself: shown now and never again."""

    token: str


@router.post("", status_code=201, dependencies=[FOR_OPERATORS], responses=documented(Token, status=201))
def post_token(body: Bearer, runtime: TheRuntime) -> Response:
    """Make a token."""
    identity = Identity(name=body.name, vo=body.vo, group=body.group, vo_role=body.vo_role)
    expires = None if body.expires_in is None else runtime.clock() + body.expires_in
    token = runtime.store.tokens.create(Credential(role=body.role, identity=identity, expires=expires))
    return answer({"token": token}, 201)
