"""The scale for the closeness of two sites (B5, B35)."""

from typing import Annotated

from pydantic import Field

from pilotage.model.values.types import FINITE

BLOCKED = -1
"""Closeness of a link over which nothing moves (B5)."""

FARTHEST = 11
"""The largest closeness. The best is 0."""

UNKNOWN_CLOSENESS = 7.7
"""The closeness of a link that declares none (B35)."""

Closeness = Annotated[float, Field(ge=BLOCKED, le=FARTHEST), FINITE]
