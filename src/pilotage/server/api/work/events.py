"""What happened to tasks, jobs, transfers, pilots, breakers and the federation, as pages and as a stream."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.types import Receive, Scope, Send

from pilotage.model.values.identity import Credential
from pilotage.model.values.types import LARGEST_ID
from pilotage.server.api.edge.access import KnownTokens, Person, bearer_of, grounds_of, may_read
from pilotage.server.api.edge.answers import answer, documented, field_refused
from pilotage.server.api.edge.dependencies import PREFIX, AnyId, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.work.event_hub import PAGE, EventFilter, EventHub, ShownEvent, frame, shown_event
from pilotage.store import Ends, EventKind, Store, TaskOwner

router = APIRouter(prefix=f"{PREFIX}/events", tags=["events"], route_class=MeasuredRoute)

MOST_SEARCHED = 20 * PAGE
"""Most events that one page is searched for."""

STREAM = "text/event-stream"

OneOf = Annotated[int, Field(ge=1, le=LARGEST_ID)]
_AFTER = Query(description="only events after this one; without it: none, but the number of the newest")
_KIND = Query(max_length=10, description="only of this kind of records; repeatable")
_TASK = Query(max_length=200, description="only of this task, its jobs included; repeatable")
_LAST_EVENT = Header(max_length=20, include_in_schema=False)


class Events(BaseModel):
    """Events in the order of their commits."""

    events: list[ShownEvent]
    next: Annotated[int, Field(description="The value of after for the page that follows.")]
    newest: Annotated[int, Field(description="Number of the newest event; next is less while pages follow.")]


async def _hub(request: Request) -> EventHub:
    hub: EventHub = request.app.state.events
    return hub


Hub = Annotated[EventHub, Depends(_hub)]

_REFUSALS = {410: "events that follow have been deleted", 429: "too many streams are open"}
_DOCUMENTED = documented(Events, 404, meanings=_REFUSALS)
_DOCUMENTED[200]["content"] = {STREAM: {"schema": {"type": "string"}}}


@router.get("", responses=_DOCUMENTED)
async def get_events(
    *,
    request: Request,
    caller: Person,
    hub: Hub,
    store: TheStore,
    after: Annotated[AnyId | None, _AFTER] = None,
    kind: Annotated[list[EventKind] | None, _KIND] = None,
    task: Annotated[list[OneOf] | None, _TASK] = None,
    last_event_id: Annotated[str, _LAST_EVENT] = "",
) -> Response:
    """What happened to the caller's tasks and jobs, to circuit breakers and to the federation, oldest first.

    An operator sees what happened to everything.

    Each event has all records that made one transition together. To follow from now on, ask without
    ``after``, read the lists, and then ask for events after ``next``.

    With ``Accept: text/event-stream`` the answer is a stream of server-sent events that does not end. Its
    first event, ``start``, has the number that it begins after. ``Last-Event-ID`` has precedence over
    ``after``. The event ``end`` has the reason why the server ends a stream: its reader is too slow, for
    example.

    410: events after that one have been deleted, or it is an event of another store.
    """
    unseen = await _unseen(hub, store, caller, task or ())
    if unseen is not None:
        raise HTTPException(404, f"there is no task {unseen}, or it is not yours")
    event_filter = EventFilter.of(caller, kind or (), task or ())
    ends = await hub.ends()
    begin = _begin(last_event_id, after)
    start = ends.newest if begin is None else _check_start(begin, ends)
    if STREAM in request.headers.get("accept", ""):
        return _stream(request, hub, store, caller, event_filter, start, ends.newest)
    return answer(await _page(hub, event_filter, start, ends.newest))


async def _unseen(hub: EventHub, store: Store, caller: Credential, tasks: Sequence[int]) -> int | None:
    """Return the first task that the caller may not read, or that does not exist; None if there is none."""

    def readable(task: TaskOwner) -> bool:
        return may_read(store, caller, task.owner, task.vo, *grounds_of(task.task, task.workflow))

    return await hub.unseen(tasks, readable) if tasks else None


def _begin(header: str, after: int | None) -> int | None:
    """Return the event that a reader begins after; None if it names none."""
    if not header:
        return after
    if header.isascii() and header.isdigit() and int(header) <= LARGEST_ID:
        return int(header)
    raise field_refused("Last-Event-ID", "must be the number of an event")


def _check_start(after: int, ends: Ends) -> int:
    """Return the number if all events after it are there; else 410, with what to do."""
    if ends.forgotten <= after <= ends.newest:
        return after
    if after < ends.forgotten:
        reason = f"events up to {ends.forgotten} are no longer kept"
    else:
        reason = f"the newest event is {ends.newest}, so {after} is an event of another store"
    raise HTTPException(
        410, f"{reason}; start again: read the lists, then follow events with after={ends.newest}"
    )


async def _page(hub: EventHub, event_filter: EventFilter, after: int, newest: int) -> Events:
    events: list[ShownEvent] = []
    searched = 0
    while after < newest and len(events) < PAGE and searched < MOST_SEARCHED:
        page = await hub.page(after, newest)
        matching = [event for event in page if event_filter.takes(event)]
        searched += PAGE
        after = page[-1].id if len(page) == PAGE else newest
        if len(events) + len(matching) > PAGE:
            matching = matching[: PAGE - len(events)]
            after = matching[-1].id
        events += map(shown_event, matching)
    return Events(events=events, next=after, newest=newest)


def _stream(
    request: Request,
    hub: EventHub,
    store: Store,
    caller: Credential,
    event_filter: EventFilter,
    start: int,
    newest: int,
) -> Response:
    tokens: KnownTokens = request.app.state.tokens
    token = bearer_of(request.headers.get("authorization", "")) or ""

    async def is_known() -> bool:
        if await tokens.find(token) is None:
            return False
        # A grant may have ended since, or a task may have been deleted.
        return await _unseen(hub, store, caller, sorted(event_filter.tasks)) is None

    place = ExitStack()
    place.enter_context(hub.place(caller.identity.key))
    return EventStream(_chunks(hub, event_filter, start, newest, is_known), place)


async def _chunks(
    hub: EventHub, event_filter: EventFilter, start: int, newest: int, is_known: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n" + frame("start", start, {"next": start})
    async for chunk in hub.follow(event_filter, start, newest, is_known):
        yield chunk


class EventStream(StreamingResponse):
    """A stream that holds one of a person's places until it ends."""

    def __init__(self, chunks: AsyncIterator[bytes], place: ExitStack) -> None:
        # Proxies would otherwise keep events until a buffer is full.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(chunks, headers=headers, media_type=STREAM)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the reader goes, or the stream ends."""
        with self._place:
            await super().__call__(scope, receive, send)
