"""The storages that hold the inputs of a pilot's jobs: its queue's, or remote ones (E3)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pilotage.agent.wire import JobInput, JobOrder, Source
from pilotage.flow.calls.pilots.pilot_files import source_of
from pilotage.model.records.federation import Federation, Storage
from pilotage.model.records.work import Job
from pilotage.model.rules.sources import Sources
from pilotage.model.values.scopes import name_of

if TYPE_CHECKING:
    from pilotage.flow.matching.matched import Matched


class Readings:
    """The inputs of matched jobs as their pilot reads them, by the matcher's own rule."""

    def __init__(self, matched: "Matched", sources: Callable[[], Sources]) -> None:
        self._storage = matched.queue.storage if matched.queue else ""
        # Few matches read anything from another storage: only these ask for the circuit breakers.
        self._sources = sources
        self._files = {file.name: file for file in matched.files}
        # An original has no separate path: pilots find it under its name.
        self._paths: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for replica in matched.replicas:
            self._paths[replica.file][replica.storage] = replica.path

    def of(self, job: Job, name: str) -> JobInput:
        """Return an input of a job, and the storage to read it from if that is not its queue's."""
        file, paths, source = self._files[name], self._paths[name], self.remote_source(job, name)
        path = paths.get(source.name if source else self._storage, "")
        return JobInput(name_of(name), file.size, file.checksum, path, source.name if source else "")

    def remote_source(self, job: Job, name: str) -> Storage | None:
        """Return the remote storage of an input that is not at the queue's own.

        A job that stays at its queue reads only there: an input missing there is lost.
        """
        paths = self._paths[name]
        if job.choice is None or self._storage in paths:
            return None
        return self._sources().readable_from(paths, self._storage)


def sources(federation: Federation, orders: Iterable[JobOrder]) -> Mapping[str, Source]:
    """Return the remote storages that the jobs of some orders read from, by name."""
    named = {file.source for order in orders for file in order.inputs if file.source}
    return {storage.name: source_of(storage) for storage in federation.storages if storage.name in named}
