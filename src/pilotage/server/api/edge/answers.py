"""Answers as bytes that are made once, bytes of files, and faults as documents for clients."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import HTTPException, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from fastapi.utils import create_model_field
from pydantic import BaseModel, Field
from starlette.types import Receive, Scope, Send

from pilotage.federation import messages
from pilotage.federation.faults import BadDocument, field_name
from pilotage.model.documents.serialization import to_json
from pilotage.store import ListPage


@dataclass(frozen=True, slots=True)
class FieldFault:
    """A fault of a field of a request, and what would be right."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """The faults of an invalid request (422)."""

    detail: list[FieldFault]


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """Why a request was refused."""

    detail: str


BYTES = "application/octet-stream"

_RECORD = "record"
"""Key of an answer's record until OpenAPI needs it. FastAPI's key is ``model``."""

_MEANINGS = {
    206: "the rest of the file",
    404: "there is no such thing, or it belongs to another owner",
    409: "not without a federation, or not in the present state",
    410: "the pilot was given up",
    411: "the size of the file is missing",
    416: "not a range of the file",
    502: "the storage fails",
}


def answer(value: object, status: int = 200) -> Response:
    """Return the document of a record without validating it, because we made it."""
    return Response(to_json(value), status, media_type="application/json")


class PageOfList(BaseModel):
    """What a page of a list has besides its rows."""

    total: Annotated[
        int | None, Field(description="Rows of all pages; null: to count them would take too long.")
    ] = None
    counts: Annotated[
        dict[str, int], Field(description="Rows by state, also those in other states than the one asked for.")
    ] = {}
    next: Annotated[str, Field(description="The `after` of the page that follows; empty: this is the last.")]


def listed(name: str, page: ListPage[Any], rows: Sequence[object] | None = None, **more: object) -> Response:
    """Return a page of a list, its rows under a name, or other ``rows`` in their place."""
    summary = {"total": page.total, "counts": page.counts, "next": page.next}
    return answer({name: page.rows if rows is None else rows, **summary, **more})


def documented(
    model: Any,
    *refusals: int,
    status: int = 200,
    meanings: Mapping[int, str] | None = None,
    refuses_all: bool = False,
) -> dict[int | str, dict[str, Any]]:
    """Describe a route's answers for OpenAPI, including its refusals, some with special ``meanings``.

    With ``refuses_all`` a 422 may also be the model, with the reason why each record was refused.
    """
    texts: Mapping[int, str] = {401: "no valid token", 403: "not for this caller"} | {
        code: _MEANINGS[code] for code in refusals
    }
    texts = {**texts, **(meanings or {})}
    answers: dict[int | str, dict[str, Any]] = {} if model is None else {status: {_RECORD: model}}
    answers |= {code: {_RECORD: RequestRefused, "description": text} for code, text in texts.items()}
    misunderstood = NotUnderstood | model if refuses_all else NotUnderstood
    return answers | {422: {_RECORD: misunderstood, "description": "not understood"}}


def documented_bytes(
    *refusals: int, media_type: str = BYTES, part: bool = False
) -> dict[int | str, dict[str, Any]]:
    """Describe a route that answers with bytes; with ``part`` also a part of them."""
    answers = documented(None, *refusals)
    answers[200] = {"content": {media_type: {}}}
    if part:
        answers[206] = answers[200] | {"description": _MEANINGS[206]}
    return answers


def field_refused(field: str, message: str) -> HTTPException:
    """Return the refusal of a request for one of its fields (422)."""
    return HTTPException(422, [{"field": field, "message": message}])


def describe_answers(route: APIRoute) -> None:
    """Add what ``documented`` stored about a route to OpenAPI. A second call changes nothing.

    FastAPI would do it when the route is made. Its three hundred validators, which no answer uses, took a
    seventh of a server's start.
    """
    for status, response in route.responses.items():
        if record := response.pop(_RECORD, None):
            name = f"Response_{status}_{route.unique_id}"
            response["model"] = record
            route.response_fields[status] = create_model_field(name, type_=record, mode="serialization")


def faults_of(bad: BadDocument) -> list[FieldFault]:
    """Return a document's faults by field."""
    return [FieldFault(field_name(fault.path), fault.text) for fault in bad.faults]


def misread(errors: Sequence[Any]) -> list[FieldFault]:
    """Return a request's faults by field, without naming the part of the request."""
    faults = [messages.of_request(error) for error in errors]
    return [FieldFault(".".join(map(str, fault.path)), fault.text) for fault in faults]


class FileContent(StreamingResponse):
    """The bytes of a file. The file is closed with the answer, even if the client disconnects.

    The exception of a disconnected client keeps the generator alive until Python collects its garbage.
    """

    def __init__(
        self,
        chunks: Generator[bytes],
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str = "application/octet-stream",
    ) -> None:
        super().__init__(chunks, status_code, headers, media_type=media_type)
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the bytes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._chunks.close()
