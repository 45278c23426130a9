"""Read tasks and federations in requests like those in files: every fault by field, in plain words.

Routes read them in their own threads, so a large one does not delay other requests.
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
"""The answer to any other body (415)."""


def _unread(kind: type[Any]) -> GetPydanticSchema:
    """Document it as the record itself, but leave it unparsed."""
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_wrap_validator_function(lambda value, _: value, handler(kind))
    )


Specified = Annotated[object, _unread(TaskSpec)]
Declared = Annotated[object, _unread(Federation)]


def read(
    kind: type[T], document: object, extra_check: Callable[[T], Iterable[Fault]] = lambda _: ()
) -> T | BadDocument:
    """Return the record of a document, or its faults as BadDocument; see ``checked``.

    Raises HTTPException for a body that is not JSON, which arrives as bytes.
    """
    if isinstance(document, bytes):
        raise HTTPException(415, NO_JSON)
    try:
        return checked(kind, document, extra_check)
    except BadDocument as bad:
        return BadDocument(bad.faults)  # without the cause, which holds every value of the document
