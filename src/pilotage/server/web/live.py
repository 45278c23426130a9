"""The stream of signs that a page is stale. A sign does not contain what happened."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Literal

from fastapi import Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Route

from pilotage.flow.runtime import Runtime
from pilotage.model.values.identity import Credential
from pilotage.model.values.types import LARGEST_ID
from pilotage.server.api.edge.access import KnownTokens, bearer_of, sees_all
from pilotage.server.api.places.pilots import visible_pilot
from pilotage.server.api.work.event_hub import EventFilter, EventHub, frame
from pilotage.server.api.work.events import EventStream
from pilotage.server.api.work.jobs import visible_job
from pilotage.server.api.work.tasks import visible_task
from pilotage.server.web.pages import answered, caller_of, query_of
from pilotage.store import EventKind

RECONNECT = b"retry: 2000\n"
"""Milliseconds after which a browser connects again."""

Number = Annotated[int, Field(ge=1, le=LARGEST_ID)]


class LiveQuery(BaseModel):
    """Which events make a page stale; see ``Staleness``."""

    after: Annotated[int, Field(ge=0, le=LARGEST_ID)] = 0
    task: Annotated[list[Number], Field(max_length=20)] = []
    kind: Annotated[list[EventKind], Field(max_length=10)] = []
    everybody: bool = False
    job: Number | None = None
    pilot: Number | None = None


async def _live(request: Request) -> Response:
    caller = await caller_of(request)
    if caller is None:
        raise HTTPException(401, "please sign in")
    query = query_of(request, LiveQuery)
    runtime: Runtime = request.app.state.runtime
    await run_in_threadpool(_refuse_unseen, runtime, caller, query)
    hub: EventHub = request.app.state.events
    place = ExitStack()
    place.enter_context(hub.place(caller.identity.key))
    return EventStream(_signs(hub, runtime, caller, query, _is_known(request)), place)


def _refuse_unseen(runtime: Runtime, caller: Credential, query: LiveQuery) -> None:
    """Refuse tasks, jobs and pilots that the caller may not see, or that do not exist."""
    for task in query.task:
        visible_task(runtime.store, caller, task)
    if query.job:
        visible_job(runtime.store, caller, query.job)
    if query.pilot and not (sees_all(caller) or caller.sites):
        raise HTTPException(403, "only operators see pilots")
    if query.pilot:
        visible_pilot(runtime, caller, query.pilot)


def _is_known(request: Request) -> Callable[[], Awaitable[bool]]:
    tokens: KnownTokens = request.app.state.tokens
    token = bearer_of(request.headers.get("authorization", "")) or ""

    async def is_known() -> bool:
        return await tokens.find(token) is not None

    return is_known


async def _signs(
    hub: EventHub,
    runtime: Runtime,
    caller: Credential,
    query: LiveQuery,
    is_known: Callable[[], Awaitable[bool]],
) -> AsyncIterator[bytes]:
    event_filter = EventFilter.of(caller, query.kind, query.task)
    if query.everybody:
        event_filter = EventFilter(owner=None, kinds=frozenset(query.kind), tasks=frozenset(query.task))
    yield RECONNECT + frame("start", None, {})
    changed = _LogGrowth(runtime, query).changed if query.job or query.pilot else None
    async for chunk in hub.signs(event_filter, query.after, is_known, changed):
        yield chunk


class _LogGrowth:
    """Knows how long a log was at the last look. Asks its pilot to send more."""

    def __init__(self, runtime: Runtime, query: LiveQuery) -> None:
        self._runtime = runtime
        self._kind: Literal["job", "pilot"] = "job" if query.job else "pilot"
        self._record = query.job or query.pilot or 0
        self._written: int | None = None

    def changed(self) -> bool:
        """Return whether the log got more since the last look."""
        self._runtime.log_readers.ask(self._kind, self._record, self._runtime.clock())
        before, self._written = self._written, self._runtime.store.logs.written(self._kind, self._record)
        return before not in (None, self._written)


ROUTES = (Route("/live", partial(answered, _live), methods=["GET"]),)
