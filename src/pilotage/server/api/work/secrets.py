"""Secrets of people for their payloads. No answer holds a value."""

from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Response
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from pilotage.flow.calls.work import secrets
from pilotage.model.records.secrets import LONGEST_SECRET, KeptSecret, SecretName, value_fault
from pilotage.server.api.edge.access import Person
from pilotage.server.api.edge.answers import PageOfList, answer, documented, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, After, Limit, TheRuntime, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.store import named_page

router = APIRouter(prefix=f"{PREFIX}/secrets", tags=["secrets"], route_class=MeasuredRoute)


def _value(value: Any) -> Any:
    # Before all other checks: their messages would show the value.
    if fault := value_fault(value):
        raise PydanticCustomError("secret", "{fault}", {"fault": fault})
    return value


class NewSecret(RequestBody):
    """A secret, in place of an earlier one of that name."""

    name: SecretName
    value: Annotated[
        Any,
        BeforeValidator(_value),
        WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LONGEST_SECRET, "writeOnly": True}),
    ]


class SecretSet(BaseModel):
    """A secret that is set, and the tasks that waited for it."""

    name: Annotated[str, Field(description="Its name.")]
    released: Annotated[list[int], Field(description="Tasks that were held for it and go on.")]


class SecretList(PageOfList):
    """The caller's secrets."""

    secrets: Annotated[list[KeptSecret], Field(description="Secrets by name.")]


Named = Annotated[SecretName, Path(description="name of a secret of the caller's")]


@router.get("", responses=documented(SecretList))
def get_secrets(caller: Person, store: TheStore, after: After = "", limit: Limit = 100) -> Response:
    """List the caller's secrets by name, and when each was set. A person has at most 100."""
    return listed(
        "secrets", named_page(secrets.listed(store, caller.identity), attrgetter("name"), after, limit)
    )


@router.post("", status_code=201, responses=documented(SecretSet, 409, status=201))
def post_secret(body: NewSecret, caller: Person, runtime: TheRuntime) -> Response:
    """Keep a secret, encrypted. Tasks that were held for it go on."""
    released = secrets.set_(runtime, caller.identity, body.name, body.value)
    return answer({"name": body.name, "released": released}, 201)


@router.delete("/{name}", status_code=204, responses=documented(None, 404))
def delete_secret(name: Named, caller: Person, store: TheStore) -> Response:
    """Remove a secret. Jobs that need it are held when a pilot would take them."""
    if not secrets.remove(store, caller.identity, name):
        raise HTTPException(404, f"you have no secret {name}; pilotage secrets list shows yours")
    return Response(status_code=204)
