"""What an application is made of, as its routes ask for it."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Path, Query, Request
from pydantic import Field

from pilotage.store import Store


async def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


async def _clock(request: Request) -> Callable[[], float]:
    clock: Callable[[], float] = request.app.state.clock
    return clock


async def _wake(request: Request) -> Callable[[str], None]:
    wake: Callable[[str], None] = request.app.state.wake
    return wake


TheStore = Annotated[Store, Depends(_store)]
Clock = Annotated[Callable[[], float], Depends(_clock)]
"""The time: s since 1970, UTC."""

Wake = Annotated[Callable[[str], None], Depends(_wake)]
"""Rings for one of the loops, by its name."""

LARGEST_ID = 2**63 - 1
Id = Annotated[int, Path(ge=1, le=LARGEST_ID)]
AnyId = Annotated[int, Query(ge=0, le=LARGEST_ID)]
Limit = Annotated[int, Query(ge=1, le=10_000, description="how many at most")]
Width = Annotated[int, Query(ge=0, le=1000, description="columns of the lines of text; 0: never folded")]
Text = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]
"""Words that any store can keep."""
