"""The scale on which the closeness of two sites is told (B5, B35)."""

from typing import Annotated

from pydantic import Field

from .types import FINITE

BLOCKED = -1
"""Closeness of a link over which nothing is moved (B5)."""

FARTHEST = 11
"""The largest closeness; the best is 0."""

UNKNOWN_CLOSENESS = 7.7
"""The closeness that stands for one that nobody declared (B35)."""

Closeness = Annotated[float, Field(ge=BLOCKED, le=FARTHEST), FINITE]
