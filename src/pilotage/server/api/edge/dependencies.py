"""Parts of the application that routes request."""

from typing import Annotated

from fastapi import Depends, Path, Query, Request
from pydantic import Field

from pilotage.explain.layout import TextForm
from pilotage.flow.runtime import Runtime
from pilotage.model.values.types import LARGEST_ID
from pilotage.store import Store

PREFIX = "/api/v1"
"""The beginning of the paths of our own routes."""

TES_PREFIX = "/ga4gh/tes/v1"
"""The beginning of the paths of GA4GH's Task Execution Service."""


def is_of_api(path: str) -> bool:
    """Return whether a path belongs to the API, not to a page."""
    return path.startswith((f"{PREFIX}/", f"{TES_PREFIX}/"))


async def _runtime(request: Request) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    return runtime


async def _store(request: Request) -> Store:
    runtime: Runtime = request.app.state.runtime
    return runtime.store


TheRuntime = Annotated[Runtime, Depends(_runtime)]
TheStore = Annotated[Store, Depends(_store)]

Id = Annotated[int, Path(ge=1, le=LARGEST_ID)]
AnyAttempt = Annotated[int, Query(ge=0, le=2**31 - 1, description="number of the attempt; 0: the latest")]
AnyId = Annotated[int, Query(ge=0, le=LARGEST_ID)]
Limit = Annotated[int, Query(ge=1, le=10_000, description="how many at most")]
After = Annotated[
    str,
    Query(
        max_length=4000,
        pattern=r"^[^\x00]*$",
        description="the `next` of the page before; empty: from the first row on. In a list by number or by "
        "name, any number or name",
    ),
]
WithParameters = Annotated[bool, Query(description="with the parameters of each job's row")]
Width = Annotated[int, Query(ge=0, le=1000, description="columns of the lines of text; 0: never folded")]


async def _text_form(
    width: Width = 0, rules: Annotated[bool, Query(description="name the published rules")] = False
) -> TextForm:
    return TextForm(width, rules)


Form = Annotated[TextForm, Depends(_text_form)]
LINE = r"^[^\x00-\x1f\x7f]*$"
"""One line of text, which any store keeps and any terminal shows."""

Text = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]
"""Text that any store can keep."""
