"""The jobs of a cluster's workers: those that are wanted within a moment become one task."""

import asyncio
import json
import logging
import time
from collections.abc import Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pilotage.model.values.phrases import plural
from pilotage.settings import Settings

from .task import WorkerTask

if TYPE_CHECKING:
    from pilotage.client import Client
    from pilotage.client.session import Session

logger = logging.getLogger("distributed.pilotage")

GATHER = 0.1
"""Seconds to gather workers into one task."""

MOST_ROWS = 1000
"""Most workers of one task."""

LONGEST_SPLIT = 30.0
"""Seconds that a cancellation waits for the jobs of a new task."""

Place = tuple[int, int]
"""A job by its task, and its place there."""


class WorkerJobs:
    """Submits and cancels jobs in threads, so that the event loop goes on."""

    def __init__(self, settings: Settings, task: WorkerTask) -> None:
        """Take the address and the token, and what is to be run. The client is loaded for the first job."""
        self._settings = settings
        self._task = task
        self.has_begun = False
        self._wanted: dict[str, tuple[str, asyncio.Future[Place]]] = {}
        self._submissions = 0
        self._unwanted: list[Place] = []
        self._cancelling: asyncio.Task[None] | None = None

    @cached_property
    def session(self) -> "Session[Client]":
        """The conversation with the server."""
        from pilotage.client import Client
        from pilotage.client.session import Session

        self.has_begun = True
        return Session(Client(settings=self._settings), "Dask", logger)

    @cached_property
    def _document(self) -> dict[str, Any]:
        return self._task.document(self.session)

    async def submit(self, name: str, scheduler: str) -> Place:
        """Run a worker with this name for a scheduler."""
        future: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        is_first = not self._wanted
        self._wanted[name] = (scheduler, future)
        self._submissions += 1
        try:
            if is_first:
                await asyncio.sleep(GATHER)
                await self._submit_all()
            return await future
        finally:
            self._submissions -= 1

    async def _submit_all(self) -> None:
        wanted = list(self._wanted.items())
        self._wanted.clear()
        for start in range(0, len(wanted), MOST_ROWS):
            part = wanted[start : start + MOST_ROWS]
            rows = [{"worker": name, "scheduler": scheduler} for name, (scheduler, _) in part]
            try:
                task = await asyncio.to_thread(self._submit, rows)
            except Exception as error:
                for _, (_, future) in part:
                    future.set_exception(error)
            else:
                for index, (_, (_, future)) in enumerate(part):
                    future.set_result((task, index))

    def _submit(self, rows: list[dict[str, str]]) -> int:
        example = {**self._document, "command": ["true"]}
        self.session.check(example, json.dumps(example, sort_keys=True))
        self.session.persevere(self.session.states.begin)
        document = {**self._document, "parameters": rows}
        task = self.session.submit(document, plural(len(rows), "worker"), uuid4().hex)
        self.session.states.add(task)
        return task

    async def cancel(self, place: Place) -> None:
        """Cancel a job; those of a moment together."""
        self._unwanted.append(place)
        if self._cancelling is None:
            self._cancelling = asyncio.create_task(self._cancel_all())
        await self._cancelling

    async def _cancel_all(self) -> None:
        await asyncio.sleep(GATHER)
        self._cancelling = None
        places, self._unwanted = self._unwanted, []
        # A task that is not split yet has no jobs to choose from.
        until = time.monotonic() + LONGEST_SPLIT
        while True:
            await self.refresh()
            tasks = self.session.states.tasks
            if all(tasks[task].states for task, _ in places if task in tasks) or time.monotonic() > until:
                break
            await asyncio.sleep(GATHER)
        await asyncio.to_thread(self.session.cancel, places)

    async def refresh(self) -> None:
        """Read the states of all jobs."""
        if self.has_begun:
            await asyncio.to_thread(self.session.refresh)

    def keep(self, places: Iterable[Place]) -> None:
        """Forget all tasks but these jobs', unless others are just submitted."""
        if self.has_begun and not self._submissions:
            self.session.states.keep(task for task, _ in places)

    async def close(self) -> None:
        """Remove what the jobs needed, and end the conversation."""
        if self.has_begun:
            await asyncio.to_thread(self._task.remove_secrets, self.session)
            self.session.client.close()

    def has_ended(self, place: Place) -> bool:
        """Return whether a job has ended, as far as the last look showed."""
        from pilotage.client.job_states import ENDED

        return self.session.states.state(*place) in ENDED

    async def reason(self, place: Place) -> str:
        """Return why a job ended."""
        number = self.session.states.number(*place)
        if number is None:
            return f"task {place[0]} ended"
        job = await asyncio.to_thread(partial(self.session.client.job, number))
        return f"job {number} {job.state}: {job['error'] or 'its worker ended'}"
