"""Calls for an attempt that wait for a server that is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .client import GivenUpError, Pause, PilotClient, RefusedError, UnreachableError
from .machine import now
from .payload.attempt import AttemptFailedError
from .pilot_job import PilotHost, PilotJob

log = logging.getLogger(__name__)
T = TypeVar("T")
KEPT_PAYLOADS = 16
ASK_AGAIN = 15.0
"""Longest pause in s between two calls while the server is away."""


class PatientCalls:
    """Calls for a pilot's attempts. ``lease_end`` returns the end of an attempt's lease."""

    def __init__(self, pilot: PilotHost, client: PilotClient, lease_end: Callable[[PilotJob], float]) -> None:
        self._pilot, self._client, self._lease_end = pilot, client, lease_end
        self._payload_files: dict[int, asyncio.Task[dict[str, str]]] = {}

    async def files_of(self, job: PilotJob) -> dict[str, str]:
        """Return the payload files of the attempt's task. They are fetched once for all its jobs."""
        task = job.attempt.work.task
        if task not in self._payload_files:
            if len(self._payload_files) >= KEPT_PAYLOADS:
                self._payload_files.pop(next(iter(self._payload_files)))
            self._payload_files[task] = asyncio.create_task(self._fetch_files(job))
        try:
            return await self._payload_files[task]
        except AttemptFailedError:
            self._payload_files.pop(task, None)
            raise

    async def _fetch_files(self, job: PilotJob) -> dict[str, str]:
        task = job.attempt.work.task
        return dict((await self.answered("payload files", job, lambda: self._client.payload(task))).files)

    async def answered(self, label: str, job: PilotJob, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call. Repeat it while the server is away, and the lease lasts.

        Results need no lease, because their payload has ended. They wait as long as their pilot lives.
        Raises AttemptFailedError, and UnreachableError for results that go into the spool.
        """
        pause = Pause(longest=ASK_AGAIN)
        while True:
            try:
                return await self._unless_leaving(job, call)
            except (GivenUpError, RefusedError) as error:
                raise AttemptFailedError(f"{label}: {error}") from error
            except UnreachableError as error:
                if job.leaving:
                    raise
                over = job.dropped if job.stored else self._pilot.ending or now() > self._lease_end(job)
                if over:
                    raise AttemptFailedError(f"{label}: {error}") from error
                log.warning("job %s, %s: %s", job.attempt.name, label, error)
                await self._paused(job, pause.failed(error.pause))

    async def _unless_leaving(self, job: PilotJob, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, but do not wait for an answer once the job leaves its results in the spool.

        The connection to a sleeping laptop stays open for minutes.
        """
        answer = asyncio.ensure_future(call())
        while not (await asyncio.wait({answer}, timeout=0.2))[0]:
            if job.leaving:
                raise UnreachableError("the pilot ends", may_have_acted=True)
        return answer.result()

    async def _paused(self, job: PilotJob, seconds: float) -> None:
        """Wait, but not for an attempt that was dropped or leaves its results."""
        until = now() + seconds
        while now() < until and not (job.dropped or job.leaving):
            await asyncio.sleep(min(0.2, max(0.0, until - now())))
