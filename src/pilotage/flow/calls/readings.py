"""The storages from which a pilot reads inputs of its jobs: beside its queue, or from afar (E3)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from pilotage.agent.wire import JobInput, JobOrder, Source
from pilotage.model.federation import Federation
from pilotage.model.scopes import name_of
from pilotage.model.sources import Sources
from pilotage.model.storage_rests import StorageRest
from pilotage.model.work import Job

from .pilot_files import told

if TYPE_CHECKING:
    from pilotage.flow.matching import Matched


class Readings:
    """The inputs of matched jobs as their pilot reads them, by the rule with which the matcher found them."""

    def __init__(self, matched: "Matched", rests: Callable[[], tuple[StorageRest, ...]]) -> None:
        self._storage = matched.queue.storage if matched.queue else ""
        self._federation, self._rests = matched.federation, rests
        self._files = {file.name: file for file in matched.files}
        # An original has no path of its own: pilots find it under its name.
        self._paths: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for replica in matched.replicas:
            self._paths[replica.file][replica.storage] = replica.path

    @cached_property
    def _sources(self) -> Sources:
        # Only here: few matches read from afar, and rests are read from the store.
        return Sources(self._federation, self._rests())

    def of(self, job: Job, name: str) -> JobInput:
        """An input of a job. One that stays at its queue reads there alone: what is missing there is lost."""
        file, held = self._files[name], self._paths[name]
        source = None
        if job.choice is not None and self._storage not in held:
            source = self._sources.readable_from(held, self._storage)
        path = held.get(source.name if source else self._storage, "")
        return JobInput(name_of(name), file.size, file.checksum, path, source.name if source else "")


def sources(federation: Federation, orders: Iterable[JobOrder]) -> Mapping[str, Source]:
    """The storages that the jobs of some orders read from afar, by name."""
    named = {file.source for order in orders for file in order.inputs if file.source}
    return {storage.name: told(storage) for storage in federation.storages if storage.name in named}
