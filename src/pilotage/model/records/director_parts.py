"""Parts of the director's constants: its submit pools, and whose its generic pilots are."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from pilotage.model.values.identity import FIT, IdentityName
from pilotage.model.values.types import CLOSED, Name, Slots, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitPool:
    """Workers that submit pilots to computing elements. A full pool passes them on to the next (P5)."""

    __pydantic_config__ = CLOSED

    min_threads_in_pool: Annotated[Whole, Field(ge=0, le=1000)] = 1
    """Workers that stay when there is nothing to submit."""
    max_threads_in_pool: Annotated[Whole, Field(ge=1, le=1000)] = 8
    """Most workers."""
    total_threads_in_pool: Slots = 1000
    """Most running and waiting submissions. One submission takes all pilots of a pass for a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenericIdentity:
    """The owner of generic pilots for the work of a VO (P7)."""

    __pydantic_config__ = CLOSED

    name: Annotated[Name, FIT] = "generic"
    """Name of the user."""
    group: IdentityName = ""
    """Group in the VO."""
