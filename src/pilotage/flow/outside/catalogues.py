"""The catalogues of one Pilotage: its own and external ones, for one person's reading."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from pilotage.flow.outside.own_catalogue import OwnCatalogue
from pilotage.flow.outside.workers import WorkersPort
from pilotage.model.documents.serialization import to_json
from pilotage.model.records.catalogues import ExternalCatalogue, ReplicationRule, external_scope, open_to
from pilotage.model.records.federation import Federation
from pilotage.model.values.identity import Identity
from pilotage.model.values.scopes import identifier, scopes_of
from pilotage.ports.catalogue import (
    CatalogueError,
    CataloguePort,
    FoundDataset,
    FoundFile,
    OutputFile,
    PublishingPort,
)

T = TypeVar("T")
Load = Callable[[ExternalCatalogue, Federation], CataloguePort]
"""Makes the adapter of a catalogue. Raises ValueError for refused options, and LookupError."""

CALL_TIME = 30.0
"""Time limit in s of one call to an external catalogue."""

MOST_CALLS = 4
"""Most calls of one catalogue that run or wait for an answer. More are refused at once, so that a dead one
delays few callers and no others."""

PUBLISH_TIME = 120.0
"""Time limit in s of one call that registers outputs."""


class Catalogues:
    """Hands out catalogues. Workers call external ones, with limits of number and time.

    ``fenced`` workers register outputs.
    """

    def __init__(
        self,
        own_catalogue: OwnCatalogue,
        federation: Callable[[], Federation],
        workers: WorkersPort,
        fenced: WorkersPort,
        load: Load,
    ) -> None:
        self.own = own_catalogue
        self._federation = federation
        self._workers, self._fenced = workers, fenced
        self._load = load
        self._lock = threading.Lock()
        self._made: dict[bytes, BoundedCatalogue] = {}

    def read_by(self, owner: Identity) -> "ReadableCatalogue":
        """Return all catalogues for one person's reading."""
        return ReadableCatalogue(self, owner)

    def of(self, scope: str, owner: Identity) -> tuple[CataloguePort, str, str]:
        """Return the catalogue of a scope, its own name for the scope, and the prefix of its scopes here.

        Raises LookupError for a scope that the owner may not read, or without an adapter, and CatalogueError
        if the adapter refuses its options.
        """
        if scope in (mine := scopes_of(owner)):
            return self.own, scope, ""
        federation = self._federation()
        match = open_to(federation.catalogues, scope, owner)
        if match is None:
            raise LookupError(f"the scope {scope!r} is not yours; yours are {', '.join(mine)}")
        declared, inner = match
        return self._external(declared, federation), inner, declared.name

    def external(self, name: str) -> "BoundedCatalogue":
        """Return an external catalogue by name. Raises LookupError and CatalogueError."""
        federation = self._federation()
        for declared in federation.catalogues:
            if declared.name == name:
                return self._external(declared, federation)
        raise LookupError(f"the federation has no catalogue {name}")

    def gather(self, dataset: str, task: int) -> "Future[Mapping[str, str]]":
        """Start making a version of an own dataset from a task's outputs. Its result refuses no file."""

        def gather() -> Mapping[str, str]:
            self.own.gather(dataset, task)
            return {}

        return self._fenced.call("outputs to own datasets", gather, PUBLISH_TIME)

    def _external(self, declared: ExternalCatalogue, federation: Federation) -> "BoundedCatalogue":
        urls = [(storage.name, storage.url) for storage in federation.storages]
        key = to_json((declared, urls))
        with self._lock:
            if key not in self._made:
                try:
                    adapter = self._load(declared, federation)
                except ValueError as error:
                    raise CatalogueError(f"the catalogue {declared.name} cannot be used: {error}") from error
                # Drop adapters of former declarations.
                self._made = {
                    text: bounded for text, bounded in self._made.items() if bounded.name != declared.name
                }
                self._made[key] = BoundedCatalogue(declared.name, adapter, self._workers, self._fenced)
            return self._made[key]


class BoundedCatalogue:
    """A catalogue that makes all its calls in workers."""

    def __init__(
        self, name: str, catalogue: CataloguePort, workers: WorkersPort, fenced: WorkersPort
    ) -> None:
        self.name = name
        self._catalogue = catalogue
        self._workers, self._fenced = workers, fenced
        self._free = threading.BoundedSemaphore(MOST_CALLS)

    def matching(self, scope: str, glob: str) -> Sequence[FoundFile]:
        """See ``CataloguePort``."""
        return self._call(lambda: self._catalogue.matching(scope, glob))

    def dataset(self, scope: str, name: str, version: int | None = None) -> FoundDataset:
        """See ``CataloguePort``."""
        return self._call(lambda: self._catalogue.dataset(scope, name, version))

    def check_output(self, scope: str, dataset: str, storages: Sequence[str]) -> None:
        """See ``PublishingPort``."""
        self._call(lambda: self._publisher.check_output(scope, dataset, storages))

    def publish(
        self,
        scope: str,
        dataset: str,
        files: Sequence[OutputFile],
        rule: ReplicationRule | None,
        closed: bool,
    ) -> "Future[Mapping[str, str]]":
        """Start ``PublishingPort.publish``, and return the future of its result."""

        def publish() -> Mapping[str, str]:
            return self._publisher.publish(scope, dataset, files, rule, closed)

        return self._fenced.call(f"outputs to {self.name}", publish, PUBLISH_TIME)

    @property
    def _publisher(self) -> PublishingPort:
        # The loader checks that an adapter with outputs has these methods.
        return cast(PublishingPort, self._catalogue)

    def _call(self, function: Callable[[], T]) -> T:
        if not self._free.acquire(blocking=False):
            raise CatalogueError(f"the catalogue {self.name} answers {MOST_CALLS} others; try again soon")
        call = self._workers.call(f"catalogue {self.name}", function, CALL_TIME)
        call.add_done_callback(self._free_again)
        try:
            return call.result()
        except OSError as error:  # a time limit too
            raise CatalogueError(f"the catalogue {self.name} does not answer: {error}") from error

    def _free_again(self, _: "Future[T]") -> None:
        self._free.release()


@dataclass(frozen=True, slots=True)
class ReadableCatalogue:
    """Finds files in scopes that a person may read. Raises LookupError for others."""

    _catalogues: Catalogues
    _owner: Identity

    def matching(self, scope: str, glob: str) -> Sequence[FoundFile]:
        """See ``CataloguePort``."""
        catalogue, inner, name = self._catalogues.of(scope, self._owner)
        return _with_scopes(name, catalogue.matching(inner, glob))

    def dataset(self, scope: str, name: str, version: int | None) -> FoundDataset:
        """See ``CataloguePort``."""
        catalogue, inner, external = self._catalogues.of(scope, self._owner)
        try:
            answer = catalogue.dataset(inner, name, version)
        except LookupError as error:
            raise LookupError(f"{error}{self._elsewhere(scope, name)}") from error
        return replace(answer, files=_with_scopes(external, answer.files))

    def _elsewhere(self, scope: str, name: str) -> str:
        """Return the owner's other scope with such a dataset: outputs are in the personal one."""
        for candidate in scopes_of(self._owner):
            if candidate != scope and self._catalogues.own.knows(identifier(candidate, name)):
                return f"; yours is {identifier(candidate, name)}: give `scope: {candidate}` with it"
        return ""


def _with_scopes(catalogue: str, files: Sequence[FoundFile]) -> Sequence[FoundFile]:
    """Give files of an external catalogue their scopes here."""
    if not catalogue:
        return files
    return [
        replace(item, file=replace(item.file, scope=external_scope(catalogue, item.file.scope)))
        for item in files
    ]
