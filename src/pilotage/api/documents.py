"""Tasks and federations in requests, read as those in files are: every fault by field, in plain words."""

from typing import Annotated, Any

from pydantic import GetPydanticSchema
from pydantic_core import core_schema

from pilotage.federation.documents import checked
from pilotage.federation.faults import BadDocument
from pilotage.model.federation import Federation
from pilotage.model.work import TaskSpec


def _reading(kind: type[Any]) -> GetPydanticSchema:
    """Documented as the record itself; read as the record, or as the faults that it has."""

    def read(value: Any, _: Any) -> object:
        try:
            return checked(kind, value)
        except BadDocument as bad:
            return bad

    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_wrap_validator_function(read, handler(kind))
    )


Specified = Annotated[object, _reading(TaskSpec)]
"""A TaskSpec, or the BadDocument that it is: one wrong task does not keep the others out."""

Declared = Annotated[object, _reading(Federation)]
"""A Federation, its references checked, or the BadDocument that it is."""
