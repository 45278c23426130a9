"""How much the next attempt of a job asks for, as set by its task."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from pilotage.model.values.types import CLOSED, FINITE

Factor = Annotated[float, Field(ge=1, le=100), FINITE]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """What a job's next attempt asks for, by the cause of the last failure."""

    __pydantic_config__ = CLOSED

    memory: Factor = 1.5
    """Factor on the limit of memory after an attempt that exceeded it, up to the most that a queue of the
    job allows; 1: the same again."""
    walltime: Factor = 1.5
    """The same for the walltime."""


AS_USUAL = Retries()
