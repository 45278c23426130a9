"""The bodies of requests."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Self, get_type_hints

from pydantic import BaseModel, ModelWrapValidatorHandler, ValidationError, create_model, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from pilotage.request_budget import MOST_FAULTS


class RequestBody(BaseModel, extra="forbid"):
    """The body of a request: it refuses fields that it does not know.

    It only counts faults if there are very many: a list of a million took the shared event loop 40 s.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _count_faults(cls, value: object, read: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return read(value)
        except ValidationError as error:
            count = error.error_count()
            if count <= MOST_FAULTS:
                raise
            fault = PydanticCustomError(
                "too_many_faults", "has {count} faults; send one record to see its", {"count": count}
            )
            details = InitErrorDetails(type=fault, loc=(), input=None)
            raise ValidationError.from_exception_data(error.title, [details]) from None


def bounded(record: type, bounds: Mapping[Any, Any], **narrower: Any) -> type[RequestBody]:
    """Return the body that has the fields of a record of the wire, within bounds by type, or by name."""
    hints = get_type_hints(record)
    checked = {**{name: bounds.get(hint, hint) for name, hint in hints.items()}, **narrower}
    definitions: dict[str, Any] = {
        field.name: (checked[field.name], ... if field.default is MISSING else field.default)
        for field in fields(record)
    }
    return create_model(record.__name__, __base__=RequestBody, __doc__=record.__doc__, **definitions)
