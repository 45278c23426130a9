"""Calls for an attempt that wait for a server that is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .assignments import Held, PilotHost
from .client import GivenUpError, Pause, PilotClient, RefusedError, UnreachableError
from .machine import now
from .payload.attempt import AttemptFailedError

log = logging.getLogger(__name__)
T = TypeVar("T")
KEPT_PAYLOADS = 16
ASK_AGAIN = 15.0
"""Longest pause in s between two calls while the server is away."""


class PatientCalls:
    """Calls for a pilot's attempts. ``lease_end`` returns the end of an attempt's lease."""

    def __init__(self, pilot: PilotHost, client: PilotClient, lease_end: Callable[[Held], float]) -> None:
        self._pilot, self._client, self._lease_end = pilot, client, lease_end
        self._payload_files: dict[int, asyncio.Task[dict[str, str]]] = {}

    async def files_of(self, held: Held) -> dict[str, str]:
        """Return the payload files of the attempt's task. They are fetched once for all its jobs."""
        task = held.attempt.work.task
        if task not in self._payload_files:
            if len(self._payload_files) >= KEPT_PAYLOADS:
                self._payload_files.pop(next(iter(self._payload_files)))
            self._payload_files[task] = asyncio.create_task(self._fetch_files(held))
        try:
            return await self._payload_files[task]
        except AttemptFailedError:
            self._payload_files.pop(task, None)
            raise

    async def _fetch_files(self, held: Held) -> dict[str, str]:
        task = held.attempt.work.task
        return dict((await self.answered("payload files", held, lambda: self._client.payload(task))).files)

    async def answered(self, what: str, held: Held, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call. Repeat it while the server is away, and the lease lasts.

        Results need no lease: nothing of theirs runs any more, so they wait as long as their pilot lives.
        Raises AttemptFailedError, and UnreachableError for results that are to be left in the spool.
        """
        pause = Pause(longest=ASK_AGAIN)
        while True:
            try:
                return await self._unless_leaving(held, call)
            except (GivenUpError, RefusedError) as error:
                raise AttemptFailedError(f"{what}: {error}") from error
            except UnreachableError as error:
                if held.leaving:
                    raise
                over = held.dropped if held.stored else self._pilot.ending or now() > self._lease_end(held)
                if over:
                    raise AttemptFailedError(f"{what}: {error}") from error
                log.warning("job %s, %s: %s", held.attempt.name, what, error)
                await self._paused(held, pause.failed(error.pause))

    async def _unless_leaving(self, held: Held, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, but do not wait for an answer once the results are to be left in the spool.

        The connection to a laptop that sleeps stands for minutes.
        """
        answer = asyncio.ensure_future(call())
        while not (await asyncio.wait({answer}, timeout=0.2))[0]:
            if held.leaving:
                raise UnreachableError("the pilot ends", heard=True)
        return answer.result()

    async def _paused(self, held: Held, seconds: float) -> None:
        """Wait, but not for an attempt that nobody wants any more."""
        until = now() + seconds
        while now() < until and not (held.dropped or held.leaving):
            await asyncio.sleep(min(0.2, max(0.0, until - now())))
