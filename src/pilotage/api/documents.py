"""Tasks and federations in requests, read as those in files are: every fault by field, in plain words.

They are read by the routes, in threads of their own: a large one does not keep other requests waiting.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import HTTPException
from pydantic import GetPydanticSchema
from pydantic_core import core_schema

from pilotage.federation.documents import checked
from pilotage.federation.faults import BadDocument, Fault
from pilotage.model.records.federation import Federation
from pilotage.model.records.work import TaskSpec

T = TypeVar("T")

NO_JSON = "send JSON, with `Content-Type: application/json`"
"""What is answered to any other body (415)."""


def _unread(kind: type[Any]) -> GetPydanticSchema:
    """Documented as the record itself, and left as it came."""
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_wrap_validator_function(lambda value, _: value, handler(kind))
    )


Specified = Annotated[object, _unread(TaskSpec)]
Declared = Annotated[object, _unread(Federation)]


def read(
    kind: type[T], document: object, also: Callable[[T], Iterable[Fault]] = lambda _: ()
) -> T | BadDocument:
    """The record that a document describes, or the BadDocument that it is; see :func:`checked`.

    Raises HTTPException for a body that is no JSON: it comes as bytes.
    """
    if isinstance(document, bytes):
        raise HTTPException(415, NO_JSON)
    try:
        return checked(kind, document, also)
    except BadDocument as bad:
        return bad
