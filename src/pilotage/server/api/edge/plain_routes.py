"""Plain routes for pilots' most frequent calls. The framework takes longer than the calls themselves.

The framework only documents these calls: its routes of the same paths get no requests.
"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from pilotage.agent import wire
from pilotage.flow.runtime import Runtime
from pilotage.model.values.identity import Credential
from pilotage.server.api.documents import NO_JSON
from pilotage.server.api.edge.access import RoleCheck, pilot_id
from pilotage.server.api.edge.measured_routes import measured

PilotCall = Callable[[Any, Credential, int, Runtime, float | None], Response]
"""Answers a pilot, from the body, the pilot's credential and id, and the time of its newest answer."""

Heard = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
"""The time of the newest answer that a pilot knew when it called, in s since 1970."""

_HEARD: TypeAdapter[float | None] = TypeAdapter(Heard | None)

_PILOT = RoleCheck("pilot")


def plain_route(path: str, body: type[BaseModel], call: PilotCall) -> Route:
    """Return the route of a pilots' call. Its body is JSON of a model."""

    async def answered(request: Request) -> Response:
        credential = await _PILOT(request)
        sent = await request.body()
        if sent and not _is_json(request.headers.get("content-type", "")):
            raise HTTPException(415, NO_JSON)
        runtime: Runtime = request.app.state.runtime
        # Parsed in the thread, too: a large report would hold up the event loop, which all requests share.
        header = request.headers.get(wire.HEARD)
        return await run_in_threadpool(measured(_answer), body, call, sent, credential, runtime, header)

    return Route(path, answered, methods=["POST"])


def _answer(
    body: type[BaseModel],
    call: PilotCall,
    sent: bytes,
    credential: Credential,
    runtime: Runtime,
    header: str | None,
) -> Response:
    pilot = pilot_id(credential)
    place: tuple[str, ...] = ("header", wire.HEARD)
    try:
        newest_answer = _HEARD.validate_python(header)
        place = ("body",)
        parsed = body.model_validate_json(sent)
    except ValidationError as bad:
        raise RequestValidationError(
            [{**error, "loc": (*place, *error["loc"])} for error in bad.errors()]
        ) from bad
    return call(parsed, credential, pilot, runtime, newest_answer)


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("application/") and kind.endswith(("/json", "+json"))
