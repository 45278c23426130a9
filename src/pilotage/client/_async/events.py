"""What happens at the server, as it happens."""

import time
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from pilotage.client.answers import check, read_answer
from pilotage.client.errors import BadAnswer, ClientError, Unreachable
from pilotage.client.records import Record, Table
from pilotage.client.shapes import EVENT
from pilotage.client.waiting import Pace, async_sleep

from .api import AsyncApi
from .connection import PATIENCE, Value

AWAY = 600.0
"""Seconds that a server may be away after it answered once, for example during a restart."""

LOOK_EVERY = 1.0
"""Seconds between two requests to a server that is away."""

SIGN_OF_LIFE = 16.0
"""Seconds within which the server sends something."""

MOST_NAMED = 200
"""Most tasks of one request. For more, this client chooses their events."""

LONGEST_LINE = 1 << 20
"""Most bytes of a line of the stream, which holds an event."""

_FIELDS = ("id", "event", "data")

STREAM = {"Accept": "text/event-stream", "Cache-Control": "no-store"}


class AsyncEventRequests(AsyncApi):
    """Events of tasks, jobs, transfers, pilots and circuit breakers."""

    async def event_page(
        self, after: int | None = None, *, kinds: Sequence[str] = (), tasks: Sequence[int] = ()
    ) -> Table[Record]:
        """Return the events that follow one; without it none, but the number of the newest as ``next``.

        Raises ``Gone`` if the server has deleted them.
        """
        return await self._table("events", "/events", EVENT, None, after=after, **_query(kinds, tasks))

    async def events(
        self,
        after: int | None = None,
        *,
        kinds: Sequence[str] = (),
        tasks: Sequence[int] = (),
        timeout: float | None = None,
    ) -> AsyncIterator[Record]:
        """Yield what happens from now on, or after an event, for ``timeout`` s or until the caller stops.

        ``kinds`` are task, job, transfer, pilot, breaker and federation. The server may be away for ten
        minutes: nothing is left out. Raises ``Gone`` if the server has deleted events that follow.
        """
        until = None if timeout is None else time.monotonic() + timeout
        async for event in self._signals(after, kinds, tasks, until):
            if event is not None:
                yield event

    async def changes(
        self, *, kinds: Sequence[str] = (), tasks: Sequence[int] = (), timeout: float | None = None
    ) -> AsyncIterator[None]:
        """Yield now, then after each change, once a second at most: look at lists then.

        A server without events yields from time to time. It ends after ``timeout`` s.
        """
        pace, is_due, looked = Pace(timeout), True, -LOOK_EVERY
        while not pace.is_over:
            try:
                async for event in self._signals(None, kinds, tasks, pace.until):
                    is_due = is_due or event is not None
                    if is_due and time.monotonic() - looked >= LOOK_EVERY:
                        yield
                        is_due, looked = False, time.monotonic()
            except ClientError:
                # If it matters, the look at a list fails too.
                yield
            await async_sleep(pace.pause(len(tasks), False))
            is_due = True

    async def _signals(
        self, after: int | None, kinds: Sequence[str], tasks: Collection[int], until: float | None
    ) -> AsyncIterator[Record | None]:
        """Yield events until a moment, and None for signs of life. Open the stream again where it breaks."""
        last_sign: float | None = None
        while until is None or time.monotonic() < until:
            time_left = PATIENCE if until is None else max(0.05, until - time.monotonic())
            patience = min(PATIENCE, time_left)
            query = {"after": after, **_query(kinds, tasks)}
            try:
                async with self._connection.content(
                    "/events", query=query, headers=STREAM, patience=patience
                ) as response:
                    if not response.headers.get("content-type", "").startswith("text/event-stream"):
                        raise BadAnswer("the server's answer is no stream of events")
                    async for number, event in _parse(_lines(response.aiter_bytes())):
                        after, last_sign = number, time.monotonic()
                        yield event
                        if until is not None and _is_late(last_sign, until, patience):
                            break
                    else:
                        await async_sleep(LOOK_EVERY)
            except BadAnswer as error:
                raise await self._connection.with_versions(error) from error
            except Unreachable:
                now = time.monotonic()
                if until is not None and now >= until:
                    return
                if last_sign is None or now - last_sign > AWAY:
                    raise
                await async_sleep(LOOK_EVERY)


def _is_late(now: float, until: float, patience: float) -> bool:
    """Return whether the next sign of life may come too late for a stream that waits so long for it."""
    return now >= until or (until - now < SIGN_OF_LIFE and patience > until - now + 1)


def _query(kinds: Sequence[str], tasks: Collection[int]) -> dict[str, Value | bool | None]:
    return {"kind": list(kinds) or None, "task": [str(task) for task in sorted(tasks)][:MOST_NAMED] or None}


async def _parse(lines: AsyncIterator[str]) -> AsyncIterator[tuple[int | None, Record | None]]:
    """Yield each event of a stream with its number, and None for signs of life."""
    number: int | None = None
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(":")
        if line:
            if name in _FIELDS:
                fields[name] = value.removeprefix(" ")
            continue
        if fields.get("event") == "end":
            return
        try:
            number = int(fields["id"]) if "id" in fields else number
            data: Any = read_answer(fields["data"]) if "data" in fields else None
        except (ValueError, RecursionError):
            raise BadAnswer("the server's answer is no stream of events") from None
        is_event = "id" in fields and data and fields.get("event") != "start"
        yield number, Record(check(data, EVENT)) if is_event else None
        fields = {}


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the lines of a stream. Raises ``BadAnswer`` at one that has no end."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise BadAnswer(f"the server's stream of events has a line of more than {LONGEST_LINE} bytes")
        for line in lines:
            yield line.decode(errors="replace").removesuffix("\r")
