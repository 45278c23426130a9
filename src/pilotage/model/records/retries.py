"""How failed jobs are tried again, as their task says."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from pilotage.model.values.types import CLOSED, FINITE, Whole

MOST_ATTEMPTS = 100
"""Most attempts of a job that a task may ask for."""

Attempts = Annotated[Whole, Field(ge=1, le=MOST_ATTEMPTS)]
_Number = Annotated[int, Field(ge=0, lt=MOST_ATTEMPTS)]
Factor = Annotated[float, Field(ge=1, le=100), FINITE]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """What a job's next attempt asks for, by the cause of the last failure, and how many attempts it has."""

    __pydantic_config__ = CLOSED

    memory: Factor = 1.5
    """Factor on the limit of memory after an attempt that exceeded it, up to the most that a queue of the
    job allows; 1: the same again."""
    walltime: Factor = 1.5
    """The same for the walltime."""
    attempts: Attempts | None = None
    """Attempts of a job before it fails for good; none: ``max_attempts``."""


def _from_number(value: object) -> object:
    """A number of retries is one less than the attempts."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if not 0 <= value < MOST_ATTEMPTS:
        message = "{value} is no number of retries; give 0 to {most}"
        raise PydanticCustomError("retries", message, {"value": value, "most": MOST_ATTEMPTS - 1})
    return {"attempts": value + 1}


AS_USUAL = Retries()
GivenRetries = Annotated[Retries, BeforeValidator(_from_number, json_schema_input_type=Retries | _Number)]
"""Retries, or their number."""
