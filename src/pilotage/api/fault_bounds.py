"""Bound the faults of one request: to tell a million of them took the shared event loop 40 s."""

from typing import Any

from fastapi.routing import APIRoute
from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from pilotage.federation.faults import MOST_FAULTS


def bounded(error: ValidationError) -> ValidationError:
    """Return an error as it is, or one that counts its faults if they are too many to be told."""
    count = error.error_count()
    if count <= MOST_FAULTS:
        return error
    told = PydanticCustomError(
        "too_many_faults", "has {count} faults; send one record to see its", {"count": count}
    )
    details = InitErrorDetails(type=told, loc=(), input=None)
    return ValidationError.from_exception_data(error.title, [details])


def bound_faults(route: APIRoute) -> None:
    """Let a route tell so many faults of a body and no more."""
    fields: list[Any] = route.dependant.body_params
    for field in fields:
        # Routes are made once, applications of them several times.
        if not isinstance(field._type_adapter, _Bounded):
            field._type_adapter = _Bounded(field._type_adapter)


class _Bounded:
    """A validator of the framework, whose errors are bounded."""

    def __init__(self, validator: Any) -> None:
        self._validator = validator

    def validate_python(self, value: object, **options: Any) -> Any:
        """Return the validated value. Raises a bounded ValidationError."""
        try:
            return self._validator.validate_python(value, **options)
        except ValidationError as error:
            raise bounded(error) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._validator, name)
