"""Answers as bytes that are made once, and faults as the documents that clients read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Response
from fastapi.routing import APIRoute
from fastapi.utils import create_model_field

from pilotage.federation import messages
from pilotage.federation.faults import BadDocument, field_name
from pilotage.model.documents.serialization import to_json


@dataclass(frozen=True, slots=True)
class FieldFault:
    """A fault of a field of a request, and what would be right."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """The faults of a request that was not understood (422)."""

    detail: list[FieldFault]


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """The reason for which a request was refused."""

    detail: str


_RECORD = "record"
"""Key of an answer's record until OpenAPI is asked for; FastAPI's is ``model``."""

_MEANINGS = {
    404: "there is no such thing, or it is somebody else's",
    409: "not before a federation is there",
    410: "the pilot was given up",
}


def answer(value: object, status: int = 200) -> Response:
    """The document of a record, not validated again: it was made by us."""
    return Response(to_json(value), status, media_type="application/json")


def documented(model: Any, *refusals: int, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Describe a route's answers for OpenAPI: its own, and those in which it refuses."""
    told: Mapping[int, str] = {401: "no valid token", 403: "not for this caller"} | {
        code: _MEANINGS[code] for code in refusals
    }
    answers: dict[int | str, dict[str, Any]] = {} if model is None else {status: {_RECORD: model}}
    answers |= {code: {_RECORD: RequestRefused, "description": text} for code, text in told.items()}
    return answers | {422: {_RECORD: NotUnderstood, "description": "not understood"}}


def describe_answers(route: APIRoute) -> None:
    """Complete what :func:`documented` told of a route, for OpenAPI; a second time changes nothing.

    FastAPI would do it as the route is made: three hundred validators, through which no answer ever goes,
    took a seventh of a server's start.
    """
    for status, told in route.responses.items():
        if record := told.pop(_RECORD, None):
            name = f"Response_{status}_{route.unique_id}"
            told["model"] = record
            route.response_fields[status] = create_model_field(name, type_=record, mode="serialization")


def faults_of(bad: BadDocument) -> list[FieldFault]:
    """A document's faults by field."""
    return [FieldFault(field_name(fault.path), fault.text) for fault in bad.faults]


def misread(errors: Sequence[Any]) -> list[FieldFault]:
    """A request's faults by field, without the part of the request in which they are."""
    faults = [messages.of_request(error) for error in errors]
    return [FieldFault(".".join(map(str, fault.path)), fault.text) for fault in faults]
