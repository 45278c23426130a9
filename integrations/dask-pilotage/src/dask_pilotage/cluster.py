"""A cluster with its scheduler here and its workers as jobs."""

import asyncio
import itertools
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from dask.utils import parse_bytes
from distributed.core import Status
from distributed.deploy.spec import SpecCluster
from distributed.scheduler import Scheduler
from distributed.security import Security

from pilotage.settings import Settings

from .jobs import Place, WorkerJobs
from .task import WorkerTask
from .workers import WorkerJob

logger = logging.getLogger("distributed.pilotage")

PACE = 1.0
"""Seconds between two looks at the states of jobs."""

MOST_FAILURES = 3
"""Workers in a row that end before they reach the scheduler, after which no more are started."""


class PilotageCluster(SpecCluster):
    """Dask's scheduler here, and its workers as jobs of Pilotage.

    The nodes must reach the scheduler: give ``host`` or ``interface`` if they reach only one address of this
    machine. They need Dask in the same version, and the same minor version of Python: ``conda`` is a folder
    there of a conda environment or venv that has them.
    """

    def __init__(
        self,
        n_workers: int = 0,
        *,
        cores: int = 1,
        memory: str | int = "2 GB",
        walltime: float | None = None,
        queue: str | None = None,
        site: str | None = None,
        conda: str | None = None,
        fields: Mapping[str, Any] | None = None,
        nanny: bool = True,
        url: str | None = None,
        home: str | None = None,
        host: str | None = None,
        interface: str | None = None,
        port: int = 0,
        contact_address: str | None = None,
        dashboard_address: str | None = ":8787",
        security: Security | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        """Start a scheduler and so many workers, each a job with so many cores and so much memory.

        Workers connect to ``contact_address`` if it is another one than the scheduler listens at.
        ``walltime`` is in s. ``fields`` are further fields of the workers' tasks. Address and token are by
        default as of the command ``pilotage``. ``options`` are those of ``SpecCluster``.
        """
        prefix = name or f"pilotage-{uuid4().hex[:6]}"
        numbers = itertools.count()
        # A lost worker's name is not used again: Dask forgets it only after a while.
        self._next_name = lambda: f"{prefix}-{next(numbers)}"
        request = {"queue": queue, "site": site, "walltime": walltime, "conda": conda}
        chosen = {"url": url, "home": home}
        settings = Settings.read(**{name: text for name, text in chosen.items() if text is not None})
        task = WorkerTask(prefix, cores, parse_bytes(memory), nanny, request, fields or {}, security)
        self._jobs = WorkerJobs(settings, task)
        self._joined: set[str] = set()
        self._failures = 0
        self._watcher: asyncio.Task[None] | None = None
        worker = {"cls": WorkerJob, "options": {"jobs": self._jobs, "cores": cores, "memory": memory}}
        scheduler = {
            "protocol": "tls://" if security else "tcp://",
            "host": host,
            "interface": interface,
            "port": port,
            "contact_address": contact_address,
            "dashboard_address": dashboard_address,
            "security": security,
        }
        super().__init__(
            scheduler={"cls": Scheduler, "options": scheduler},
            worker=worker,
            workers={self._next_name(): worker for _ in range(n_workers)},
            security=security,
            name=prefix,
            **options,
        )

    def _new_worker_name(self, worker_number: int) -> str:  # noqa: ARG002
        return self._next_name()

    async def _start(self) -> None:
        await super()._start()
        if self._watcher is None and self.status == Status.running:
            self._end = asyncio.Event()
            self._watcher = asyncio.create_task(self._watch())

    async def _close(self) -> None:
        await super()._close()
        if self._watcher is not None:
            watcher, self._watcher = self._watcher, None
            self._end.set()
            await watcher
            await self._jobs.close()

    async def _watch(self) -> None:
        """Replace workers when their jobs end, as long as the cluster is open."""
        while self.status == Status.running:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), PACE)
            try:
                await self._look()
            except Exception as error:
                logger.error("Pilotage: %s", error)

    async def _look(self) -> None:
        await self._jobs.refresh()
        if self.status != Status.running:
            return
        self._joined |= {worker.name for worker in self.scheduler.workers.values()}
        for name, worker in list(self.workers.items()):
            if worker.status == Status.failed:
                # It was refused, which has been said.
                del self.workers[name]
                self.worker_spec.pop(name, None)
            elif worker.status == Status.running and self._jobs.has_ended(worker.place):
                await self._replace(name, worker, worker.place)
        self._jobs.keep(worker.place for worker in self.workers.values() if worker.place)
        if self.status == Status.running and set(self.worker_spec) - set(self.workers):
            await self._correct_state()

    async def _replace(self, name: str, worker: WorkerJob, place: Place) -> None:
        """Start another worker for one that has ended, unless none of them reaches the scheduler."""
        del self.workers[name]
        worker.end()
        if self.worker_spec.pop(name, None) is None:
            return
        reason = await self._jobs.reason(place)
        if name in self._joined:
            self._failures = 0
            logger.warning("Pilotage: worker %s is lost, another follows: %s", name, reason)
        else:
            self._failures += 1
            logger.warning("Pilotage: worker %s ended before it reached the scheduler: %s", name, reason)
        if self.status != Status.running:
            return
        if self._failures < MOST_FAILURES:
            self.worker_spec.update(self.new_worker_spec())
        elif self._failures == MOST_FAILURES:
            logger.error(
                "Pilotage: no more workers are started. Nodes must reach the scheduler at %s: give host=, "
                "interface= or contact_address=, or run this program where nodes reach it. scale() tries "
                "again.",
                self.scheduler.contact_address or self.scheduler.address,
            )

    def scale(self, n: int = 0, memory: str | None = None, cores: int | None = None) -> Any:
        """Run so many workers, or workers with so much memory or so many cores together."""
        self._failures = 0
        return super().scale(n, memory, cores)
