"""A worker of Dask as a job."""

import logging
from typing import TYPE_CHECKING, Any

from distributed.core import Status
from distributed.deploy.spec import ProcessInterface

if TYPE_CHECKING:
    from .jobs import Place, WorkerJobs

logger = logging.getLogger("distributed.pilotage")


class WorkerJob(ProcessInterface):
    """A job that runs one worker. It is started when it is submitted, not when its worker is there."""

    def __init__(self, scheduler: str, name: str, jobs: "WorkerJobs", **options: Any) -> None:
        """Take the worker's name. ``options`` are what Dask asks about a worker: cores and memory."""
        super().__init__()
        self.options = options
        self.scheduler = scheduler
        self.name = name
        self.place: Place | None = None
        self._jobs = jobs

    async def start(self) -> None:
        """Submit it."""
        try:
            self.place = await self._jobs.submit(self.name, self.scheduler)
        except Exception:
            self.status = Status.failed
            raise
        await super().start()

    def end(self) -> None:
        """Take note that its job has ended."""
        self.status = Status.closed
        self._event_finished.set()

    async def close(self) -> None:
        """Cancel it."""
        if self.status == Status.running and self.place:
            self.status = Status.closing
            await self._jobs.cancel(self.place)
        await super().close()
