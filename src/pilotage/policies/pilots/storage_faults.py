"""Evidence about storages in pilots' reports: failed and successful reads and writes (F4)."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from pilotage.model.circuit_breakers.breaker import open_at
from pilotage.model.circuit_breakers.storages import End, FailedDelivery, one_line, retried_at
from pilotage.model.documents.decision import Forget
from pilotage.model.documents.moves import Wait
from pilotage.model.documents.world import Report, World
from pilotage.model.records.work import Job, Pilot
from pilotage.model.values.scopes import name_of


class StorageFaults:
    """Faults of storages in pilots' reports.

    A pilot's report counts for the storage of its queue, and for remote reading into it. It counts for other
    storages only if others agree (``storage_breakers``).
    """

    def __init__(self, world: World, homes: Mapping[str, str]) -> None:
        self._world, self._homes = world, homes
        self._served: set[End] = set()

    @cached_property
    def _storages(self) -> frozenset[str]:
        return frozenset(storage.name for storage in self._world.federation.storages)

    @cached_property
    def _closed(self) -> frozenset[End]:
        return frozenset(breaker.place for breaker in open_at(self._world.storage_breakers, self._world.time))

    def failure(self, pilot: Pilot, job: Job, report: Report) -> tuple[FailedDelivery, ...]:
        """Return the failed delivery behind a failed attempt; nothing if its breaker is open, or if the file
        or storage does not belong to the job.

        A failure while the breaker is open began before it opened.
        """
        fault, home = report.storage_fault, self._homes.get(job.queue, "")
        if fault is None or not home or fault.source not in ("", *self._storages):
            return ()
        file = fault.file if fault.written else _input(job.inputs, fault.file)
        if not file:
            return ()
        source, destination = ("", home) if fault.written else _read_end(fault.source or home, home)
        if (source, destination) in self._closed:
            return ()
        return (
            FailedDelivery(
                job=job.id,
                attempt=job.attempt,
                task=job.task,
                node=pilot.place,
                file=f"{job.id}/{file}" if fault.written else file,
                source=source,
                destination=destination,
                time=self._world.time,
                error=one_line(report.error),
            ),
        )

    def wait(self, job: Job, faults: Sequence[FailedDelivery]) -> Wait | None:
        """Return how long a job waits after a failure of a storage; None without ``faults``."""
        if not faults:
            return None
        (fault,), now = faults, self._world.time
        failed = (*self._world.failed_deliveries, fault)
        until = retried_at(failed, self._world.federation.staging)[job.id]
        direction = f"read from {fault.source}" if fault.source else f"written to {fault.destination}"
        name = name_of(fault.file.removeprefix(f"{job.id}/"))
        return Wait(until, f"{name} could not be {direction}, so it waits {until - now:.0f} s")

    def served(self, job: Job, report: Report) -> None:
        """Record the storages that gave a job its inputs, or took its outputs."""
        if home := self._homes.get(job.queue, ""):
            self._served |= {_read_end(source, home) for source in report.read_from}
            if report.outputs:
                self._served.add(("", home))

    def forgotten(self) -> tuple[Forget, ...]:
        """Return the failures to forget, because the same storage has since worked."""
        failing = self._served & {failure.end for failure in self._world.failed_deliveries}
        return (Forget(failed_at=tuple(sorted(failing))),) if failing else ()


def _read_end(source: str, home: str) -> End:
    """Return the ends of a read; a read at the queue's own storage has no destination."""
    return source, "" if source == home else home


def _input(inputs: Sequence[str], name: str) -> str:
    """Return the input with this name, by its identifier; empty if the job has none."""
    return next((identifier for identifier in inputs if name_of(identifier) == name), "")
