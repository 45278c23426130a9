"""Plain routes for pilots' most frequent calls. The framework takes longer than the calls themselves.

The guard calls these routes when it has admitted the caller and read the body. The framework only documents
them: its routes of the same paths get no requests.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, cast

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from pilotage.agent import wire
from pilotage.flow.runtime import Runtime
from pilotage.model.values.identity import Credential
from pilotage.server.api.documents import NO_JSON
from pilotage.server.api.edge.access import RoleCheck, pilot_id
from pilotage.server.api.edge.measured_routes import measured

PilotCall = Callable[[Any, Credential, int, Runtime, float | None], Response]
"""Answers a pilot, from the body, the pilot's credential and id, and the time of its newest answer."""

PlainRoute = Callable[[Request, Credential | None, bytes], Awaitable[Response]]
"""Answers a request, from its caller and its body."""

Heard = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
"""The time of the newest answer that a pilot knew when it called, in s since 1970."""

_HEARD: TypeAdapter[float | None] = TypeAdapter(Heard | None)

_PILOT = RoleCheck("pilot")

PARSED_AT_ONCE = 4096
"""Most bytes of a body that the event loop parses: it takes less time than a thread's turn."""

FrequentCall = tuple[Any, Credential, int]
"""The body of a pilots' call, the pilot's credential and id."""


def plain_route(
    body: type[BaseModel], call: PilotCall, is_frequent: Callable[[Any], bool] = lambda _: False
) -> PlainRoute:
    """Return the route of a pilots' call. Its body is JSON of a model.

    The application's ``frequent_calls`` may answer a call that ``is_frequent``, by its body.
    """

    async def answered(request: Request, caller: Credential | None, sent: bytes) -> Response:
        credential = _PILOT.admit(caller)
        if sent and not _is_json(request.headers.get("content-type", "")):
            raise HTTPException(415, NO_JSON)
        state, header = request.app.state, request.headers.get(wire.HEARD)
        if len(sent) <= PARSED_AT_ONCE:
            parsed, _ = _parsed(body, sent, header)
            if is_frequent(parsed) and (
                answer := await state.frequent_calls((parsed, credential, pilot_id(credential)))
            ):
                return cast(Response, answer)
        # Parsed in the thread: a large report would hold up the event loop, which all requests share.
        return await run_in_threadpool(measured(_answer), body, call, sent, credential, state.runtime, header)

    return answered


def _answer(
    body: type[BaseModel],
    call: PilotCall,
    sent: bytes,
    credential: Credential,
    runtime: Runtime,
    header: str | None,
) -> Response:
    pilot = pilot_id(credential)
    parsed, newest_answer = _parsed(body, sent, header)
    return call(parsed, credential, pilot, runtime, newest_answer)


def _parsed(body: type[BaseModel], sent: bytes, header: str | None) -> tuple[BaseModel, float | None]:
    """Return the body, and the time of the newest answer."""
    place: tuple[str, ...] = ("header", wire.HEARD)
    try:
        newest_answer = _HEARD.validate_python(header)
        place = ("body",)
        return body.model_validate_json(sent), newest_answer
    except ValidationError as bad:
        raise RequestValidationError(
            [{**error, "loc": (*place, *error["loc"])} for error in bad.errors()]
        ) from bad


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("application/") and kind.endswith(("/json", "+json"))
