"""The mover that streams bytes through this machine between any kinds of storages."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import Any, Protocol
from uuid import uuid4

from pilotage.adapters.movers import transfer_services
from pilotage.adapters.movers.copies import copying, scanning
from pilotage.adapters.movers.copies.checksums import CheckedChunks
from pilotage.adapters.movers.copies.drafts import LocalDraft, Publisher
from pilotage.adapters.movers.copies.fault_attribution import blamed, source_errors
from pilotage.adapters.movers.processes.threads import CopyThreads, RunningCopy
from pilotage.adapters.movers.storages import fsspec_backend
from pilotage.adapters.movers.storages.backend import (
    Backend,
    GrantingBackend,
    SpaceBackend,
    offers,
    option_sets,
)
from pilotage.adapters.movers.storages.backend_calls import explained, reason
from pilotage.adapters.movers.transfer_services import ServiceAdapter, Sign
from pilotage.model.records.federation import Storage, TransferService
from pilotage.model.values.paths import (
    COPIES,
    SCRATCH,
    UPLOADS,
    is_copy,
    is_of_job,
    is_scratch,
    upload_folder,
)
from pilotage.model.values.slot_parts import SMALL_FILE
from pilotage.ports import adapters
from pilotage.ports.moving import (
    SCAN_LIMITS,
    Abilities,
    Delivered,
    Delivery,
    DeliveryFailed,
    Grant,
    Place,
    Progress,
    Readable,
    ScanLimits,
    ScannedFiles,
    Space,
    StorageError,
    WrongFileError,
    is_below,
    options_for,
)

GROUP = "pilotage.storages"
"""The entry point group of backends, by URL scheme."""


class _BackendFactory(Protocol):
    writable: bool

    def __call__(self, url: str, options: Mapping[str, Any], /) -> Backend: ...


def check(storage: Storage) -> None:
    """Raise ValueError if a storage's URL or options are wrong, without opening it.

    Check only backends: one of fsspec's file systems may connect when it is made.
    """
    scheme = storage.url.partition("://")[0]
    sets = option_sets(storage.options)
    if factory := dict(_backends()).get(scheme):
        for options in sets:
            factory(storage.url, options)


def hint(scheme: str) -> str:
    """Return what to install for storages of a scheme, after a semicolon; empty if nothing helps."""
    if scheme in adapters.installed(GROUP):
        try:
            adapters.factory(GROUP, scheme)
        except adapters.AdapterError as error:
            return f"; {error.__cause__ or error}"
    return ""


def _backends() -> Iterator[tuple[str, _BackendFactory]]:
    """Yield the importable backends by scheme. Others lack a package."""
    for scheme in adapters.installed(GROUP):
        with suppress(adapters.AdapterError):
            yield scheme, adapters.factory(GROUP, scheme)  # type: ignore[misc]


class Streaming(CopyThreads):
    """Copies between the backends of ``pilotage.storages``, and through fsspec for the other schemes."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        super().__init__(self._run, on_change)
        self._publishers: dict[tuple[str, str], Publisher] = {}
        self._opened: dict[tuple[str, str], Backend] = {}
        self._services: dict[str, ServiceAdapter] = {}
        self._opening = threading.Lock()

    @cached_property
    def abilities(self) -> Abilities:
        """Return every scheme with a backend."""
        backends = dict(_backends())
        file_systems = fsspec_backend.schemes() - backends.keys()
        read_only = {scheme for scheme, factory in backends.items() if not factory.writable}
        return Abilities(
            name="streaming",
            reads=file_systems | backends.keys(),
            writes=file_systems | (backends.keys() - read_only),
            scan=True,
            remove=True,
            open=True,
        )

    def scan(self, storage: Storage, glob: str, limits: ScanLimits = SCAN_LIMITS) -> ScannedFiles:
        """See ``Mover.scan``."""
        with explained(StorageError, f"scanning {storage.url} for {glob!r}"):
            return scanning.scan(self._backend(storage.url, options_for(storage)), storage, glob, limits)

    def remove(self, storage: Storage, prefix: str) -> None:
        """Delete a folder below ``.scratch`` or of an upload, one copy or one output of a job.

        A missing one is no error.
        """
        with explained(StorageError, f"removing {prefix!r} from {storage.url}"):
            is_folder = is_scratch(prefix) or upload_folder(prefix) == prefix
            if not (is_folder or is_copy(prefix) or is_of_job(prefix)) or not is_below(prefix):
                raise StorageError(
                    f"{prefix!r} is neither below {SCRATCH} nor below {COPIES} of storage {storage.name}, "
                    f"no upload in {UPLOADS}, and no output of a job"
                )
            backend = self._backend(storage.url, options_for(storage))
            with suppress(FileNotFoundError):
                if is_folder:
                    backend.delete_folder(prefix, recursive=True)
                else:
                    backend.delete(prefix)

    @contextmanager
    def open(self, storage: Storage, path: str) -> Iterator[Readable]:
        """See ``Reader.open``. Reading raises StorageError too."""
        place = Place(url=storage.url, path=path, options=options_for(storage))
        with explained(StorageError, f"reading {place}"), self._at(place).read(path) as stream:
            yield stream

    def store(self, storage: Storage, path: str, stream: Readable, size: int) -> Delivered:
        """See ``Reader.store``."""
        place = Place(url=storage.url, path=path, options=options_for(storage))
        checked = CheckedChunks(stream, "what was sent", Delivered(size=size, checksum=""), lambda _: None)
        with explained(StorageError, f"writing {place}"):
            # Use a unique name: an earlier upload of the file may still run.
            self._at(place).store(path, f".{uuid4().hex}.part", checked, size)
        return checked.actual

    def grant(self, storage: Storage, path: str, size: int | None = None) -> Grant | None:
        """See ``Reader.grant``."""
        place = Place(url=storage.url, path=path, options=options_for(storage))
        with explained(StorageError, f"giving an address of {place}"):
            backend = self._at(place)
            return backend.grant(path, size) if offers(backend, GrantingBackend) else None

    def space(self, storage: Storage) -> Space | None:
        """See ``SpaceTeller.space``."""
        with explained(StorageError, f"asking {storage.url} for its free space"):
            backend = self._backend(storage.url, options_for(storage))
            return backend.space() if offers(backend, SpaceBackend) else None

    def deliver(self, delivery: Delivery, progress: Progress, sign: Sign = lambda: None) -> Delivered:
        """Copy one file and clear its scratch area. Blocks. Raises StorageError."""
        with _blaming(delivery):
            source, delivered = self._copied(delivery, progress, sign)
            _clear(source, delivery)
        return delivered

    def _run(self, delivery: Delivery, running: RunningCopy) -> Delivered | None:
        """Do the same, but leave a small file at a directory without its name: many are named together."""
        if delivery.size > SMALL_FILE:
            return self.deliver(delivery, running, running.sign)
        drafts: list[LocalDraft] = []
        with _blaming(delivery):
            source, delivered = self._copied(delivery, running, running.sign, drafts.append)
            if not drafts:
                _clear(source, delivery)
                return delivered

        def published(error: Exception | None) -> Delivered:
            with _blaming(delivery):
                if error is not None:
                    raise error
                _clear(source, delivery)
            return delivered

        publisher = self._publisher(delivery.destination)
        publisher.add(drafts[0], lambda error: running.conclude(partial(published, error)))
        return None

    def _copied(
        self, delivery: Delivery, progress: Progress, sign: Sign, keep: copying.Keep | None = None
    ) -> tuple[Backend, Delivered]:
        with source_errors():
            source = self._at(delivery.source)
        target = self._at(delivery.destination)
        adapter = self._service(delivery.service)
        carry = partial(adapter.carry, delivery, progress, sign) if adapter else None
        return source, copying.copy(source, target, delivery, progress, carry, keep)

    def _publisher(self, place: Place) -> Publisher:
        with self._opening:
            return self._publishers.setdefault((place.url, repr(sorted(place.options.items()))), Publisher())

    def _at(self, place: Place) -> Backend:
        if not is_below(place.path):
            raise WrongFileError(f"{place.path!r} is not a path below {place.url}")
        return self._backend(place.url, place.options)

    def _backend(self, url: str, options: Mapping[str, Any]) -> Backend:
        """Return the backend of a storage. It is made once, so that it can keep its connections."""
        key = (url, repr(sorted(options.items())))
        with self._opening:
            if key not in self._opened:
                self._opened[key] = self._factory(url.partition("://")[0])(url, options)
            return self._opened[key]

    def _service(self, service: TransferService | None) -> ServiceAdapter | None:
        """Return the adapter of a service. It is made once, so that it can ask for many files together."""
        if service is None:
            return None
        with self._opening:
            key = repr(service)
            if key not in self._services:
                self._services[key] = transfer_services.load(service)
            return self._services[key]

    def _factory(self, scheme: str) -> _BackendFactory:
        if scheme in adapters.installed(GROUP):
            factory: Any = adapters.factory(GROUP, scheme)
        else:
            factory = fsspec_backend.FsspecBackend
        return factory  # type: ignore[no-any-return]


@contextmanager
def _blaming(delivery: Delivery) -> Iterator[None]:
    """Turn the error of a delivery into DeliveryFailed with the blame."""
    try:
        yield
    except Exception as error:
        text, source = reason(error), str(delivery.source)
        if text.startswith(f"{source} "):
            text = f"the source{text.removeprefix(source)}"
        failed = DeliveryFailed(f"{source} to {delivery.destination}: {text}")
        failed.fault = blamed(error)
        raise failed from error


def _clear(source: Backend, delivery: Delivery) -> None:
    with source_errors(), explained(StorageError, f"cleaning up {delivery.source}"):
        copying.clear(source, delivery)
