"""The events of one server for all of its open streams: one reader of the store, many readers of memory.

A stream reads from the store what happened before. When it has caught up, it takes what the one reader hands
out. Streams that want the same share the bytes. A stream that stops reading is ended, so that it delays no
others and holds little memory.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pilotage.flow.runtime import Runtime
from pilotage.model.documents.serialization import to_json
from pilotage.model.values.identity import Credential, Owners, includes
from pilotage.server.api.edge.access import owner_seen
from pilotage.store import Ends, EventKind, LoggedEvent, TaskOwner, Unknown

T = TypeVar("T")

log = logging.getLogger(__name__)

TOGETHER = 0.2
"""Seconds between two reads of the store. Streams get what happened in between together."""

PERIOD = 1.0
"""Seconds after which the store is read without a sign that anything happened: other processes of a SQLite
store give none."""

HEARTBEAT = 15.0
"""Seconds between two signs of life of a quiet stream."""

QUIET = 1.0
"""Seconds after events at which the first sign of life says that no more came: readers may look now."""

PAGE = 500
"""Most events that are read together."""

MOST_BUFFERED = 512 * 1024
"""Most bytes that wait for the reader of one stream, beyond the last page."""

MOST_OF_PERSON = 64
"""Most open streams of one person at a server."""

MOST_STREAMS = 1024
"""Most open streams at a server: each may hold ``MOST_BUFFERED``, but most share their bytes."""

LOOK = 3.0
"""Seconds between two looks at what changes without events, such as a log."""

FOR_ALL: frozenset[EventKind] = frozenset(("breaker", "federation"))
"""Kinds of events that everybody sees, unless they are of a task."""

SLOW = "events came faster than you read them"
STOPPING = "the server stops"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvent:
    """A transition that records of one kind made together."""

    id: int
    time: float
    kind: EventKind | Unknown
    task: int | None
    source: str | None
    target: str
    cause: str
    actor: str
    records: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """The events that a reader wants and may see: some kinds, and some visible tasks; empty: all."""

    owner: Owners
    """The owners of the tasks that it sees besides ``tasks``."""
    kinds: frozenset[EventKind] = frozenset()
    tasks: frozenset[int] = frozenset()

    @classmethod
    def of(cls, caller: Credential, kinds: Sequence[EventKind], tasks: Sequence[int]) -> "EventFilter":
        """Return what a caller wants, who may see each of these tasks."""
        return cls(owner=owner_seen(caller), kinds=frozenset(kinds), tasks=frozenset(tasks))

    def takes(self, event: LoggedEvent) -> bool:
        """Return whether an event is wanted, and may be seen."""
        is_for_all = event.kind in FOR_ALL and not event.task
        is_own = bool(event.task) and includes(self.owner, event.owner, event.vo)
        if not (self.owner is None or is_for_all or is_own or event.task in self.tasks):
            return False
        return (not self.kinds or event.kind in self.kinds) and (not self.tasks or event.task in self.tasks)


def shown_event(event: LoggedEvent) -> ShownEvent:
    """Return an event as readers get it."""
    return ShownEvent(
        id=event.id,
        time=event.time,
        kind=event.kind,
        task=event.task or None,
        source=event.source or None,
        target=event.target,
        cause=event.cause,
        actor=event.actor,
        records=event.records,
    )


def frame(name: str, id_: int | None, data: object) -> bytes:
    """Return one event of a stream."""
    number = b"" if id_ is None else b"id: %d\n" % id_
    return b"%sevent: %s\ndata: %s\n\n" % (number, name.encode(), to_json(data))


STALE = frame("stale", None, {})
"""The sign that something changed since its reader looked."""


class Stream:
    """The events that wait for the reader of one open stream. It belongs to the event loop."""

    def __init__(self, event_filter: EventFilter, after: int) -> None:
        self.event_filter = event_filter
        self.after = after
        self.ending = ""
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()

    def offer(self, chunk: bytes) -> None:
        """Keep bytes for the reader, or end the stream if too many wait."""
        if self._chunks and self._size + len(chunk) > MOST_BUFFERED:
            self.end(SLOW)
        else:
            self._chunks.append(chunk)
            self._size += len(chunk)
            self._news.set()

    def end(self, reason: str) -> None:
        """End the stream: drop its waiting events, and let the reader know why."""
        self.ending = self.ending or reason
        self._chunks.clear()
        self._size = 0
        self._news.set()

    async def next(self, timeout: float) -> bytes:
        """Return the bytes that wait, after at most so many seconds; none if nothing came or it ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._news.wait()
        self._news.clear()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        return data


class Sign(Stream):
    """Waiting news for a reader who only wants to know that something happened."""

    def offer(self, chunk: bytes) -> None:  # noqa: ARG002
        """Keep one sign, however much happens before it is read."""
        if not self._chunks:
            super().offer(STALE)


class EventHub:
    """Reads the log while streams are open, and hands events to them. It belongs to the event loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._log = runtime.store.event_log
        runtime.news.append(self._tell)
        # Separate threads, so that streams never wait for requests, nor the reader for the streams.
        self._reading = ThreadPoolExecutor(1, "events")
        self._catching_up = ThreadPoolExecutor(2, "earlier-events")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._streams: set[Stream] = set()
        self._open: Counter[str] = Counter()
        self._users = 0
        self._is_closed = False
        self._position = 0

    @contextmanager
    def place(self, person: str) -> Iterator[None]:
        """Take one of a person's streams. Raises ``TooManyStreams``."""
        if self._open[person] >= MOST_OF_PERSON:
            raise TooManyStreams(f"{MOST_OF_PERSON} streams of yours are open here; close one, or share them")
        if self._open.total() >= MOST_STREAMS:
            raise TooManyStreams(f"{MOST_STREAMS} streams are open at this server; try again later")
        self._open[person] += 1
        try:
            yield
        finally:
            self._open[person] -= 1
            if not self._open[person]:
                del self._open[person]

    async def ends(self) -> Ends:
        """Return the ends of the log."""
        return await _in_thread(self._catching_up, self._log.ends)

    async def page(self, after: int, last: int) -> list[LoggedEvent]:
        """Return the first events after one."""
        return await _in_thread(self._catching_up, lambda: self._log.page(after, last, PAGE))

    async def unseen(self, tasks: Sequence[int], may_read: Callable[[TaskOwner], bool]) -> int | None:
        """Return the first of some tasks that is not there or that its reader may not read; None: none is."""

        def first() -> int | None:
            owners = self._log.owners(tasks)
            return next((task for task in tasks if task not in owners or not may_read(owners[task])), None)

        return await _in_thread(self._catching_up, first)

    async def follow(
        self, event_filter: EventFilter, after: int, newest: int, is_known: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        """Yield the bytes of a stream: the wanted events after one, and signs of life."""
        stream = Stream(event_filter, after)
        await self._begin(newest)
        try:
            while stream.after < self._position and not self._is_closed:
                page = await self.page(stream.after, self._position)
                stream.after = page[-1].id if len(page) == PAGE else self._position
                if chunk := b"".join(map(_framed, filter(event_filter.takes, page))):
                    yield chunk
            # Nothing waits between the last look at the position and this line: no event is missed.
            self._add(stream)
            async for chunk in self._live(stream, is_known):
                yield chunk
        finally:
            self._streams.discard(stream)
            self._users -= 1

    async def signs(
        self,
        event_filter: EventFilter,
        after: int,
        is_known: Callable[[], Awaitable[bool]],
        changed: Callable[[], bool] | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield a sign whenever wanted events came, without the events, and signs of life.

        The first sign comes immediately if anything happened after ``after``. A thread calls ``changed`` now
        and then: it returns whether something changed that has no events.
        """
        newest = (await self.ends()).newest
        stream = Sign(event_filter, newest)
        await self._begin(newest)
        looking = asyncio.create_task(self._look(stream, changed)) if changed else None
        try:
            self._add(stream)
            if after != newest:
                stream.offer(STALE)
            async for chunk in self._live(stream, is_known):
                yield chunk
        finally:
            self._streams.discard(stream)
            self._users -= 1
            if looking:
                looking.cancel()

    async def _look(self, stream: Stream, changed: Callable[[], bool]) -> None:
        while True:
            try:
                if await _in_thread(self._catching_up, changed):
                    stream.offer(STALE)
            except Exception:
                log.exception("could not look at a log; trying again in %g s", LOOK)
            await asyncio.sleep(LOOK)

    def _add(self, stream: Stream) -> None:
        self._streams.add(stream)
        if self._is_closed:
            stream.end(STOPPING)

    async def _live(self, stream: Stream, is_known: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
        chunk, checked = b"", time.monotonic()
        while True:
            position = self._position
            chunk = await stream.next(min(QUIET, HEARTBEAT) if chunk else HEARTBEAT)
            if stream.ending:
                yield frame("end", None, {"reason": stream.ending})
                return
            if chunk:
                yield chunk
            else:
                # The number lets a reader of rare events go on from here.
                stream.after = max(stream.after, position)
                yield b": heartbeat\nid: %d\n\n" % stream.after
            # A stream that is never quiet ends with its token too.
            if not chunk or time.monotonic() - checked >= HEARTBEAT:
                checked = time.monotonic()
                if not await is_known():
                    stream.end("your token is no longer valid, or you may not read a task any more")

    def close(self) -> None:
        """End every stream, from any thread: the server stops."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        self._is_closed = True
        for stream in self._streams:
            stream.end(STOPPING)

    def _tell(self) -> None:
        """Wake the reader, from any thread."""
        loop = self._loop
        if self._users and loop is not None and not self._news.is_set():
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._news.set)

    async def _begin(self, newest: int) -> None:
        """Make sure that the log is read."""
        self._loop = asyncio.get_running_loop()
        self._users += 1
        if self._reader is None or self._reader.done():
            self._position = newest
            self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while self._users:
            with suppress(TimeoutError):
                async with asyncio.timeout(PERIOD):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._hand_out()
            except Exception:
                log.exception("could not read events; trying again in %g s", PERIOD)
                await asyncio.sleep(PERIOD)
            await asyncio.sleep(TOGETHER)

    async def _hand_out(self) -> None:
        newest = await _in_thread(self._reading, self._log.newest)
        while (position := self._position) < newest:
            page = await _in_thread(self._reading, partial(self._log.page, position, newest, PAGE))
            self._publish(page)
            self._position = page[-1].id if len(page) == PAGE else newest

    def _publish(self, page: Sequence[LoggedEvent]) -> None:
        framed = [(event, _framed(event)) for event in page] if self._streams else []
        chunks: dict[tuple[EventFilter, int], bytes] = {}
        for stream in self._streams:
            # A stream may have read farther than this reader, just before it came here.
            key = stream.event_filter, max(stream.after, self._position)
            if key not in chunks:
                chunks[key] = b"".join(
                    text for event, text in framed if event.id > key[1] and stream.event_filter.takes(event)
                )
            if chunks[key] and not stream.ending:
                stream.offer(chunks[key])


class TooManyStreams(Exception):
    """No further stream is opened."""


async def _in_thread(thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, copy_context().run, work)


def _framed(event: LoggedEvent) -> bytes:
    return frame(event.kind, event.id, shown_event(event))
