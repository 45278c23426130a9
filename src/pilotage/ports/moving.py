"""The port to storages: start, poll and cancel deliveries; scan and clear storages."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

from pilotage.model.records.catalogues import ExternalCatalogue, moving_scope
from pilotage.model.records.federation import Storage, TransferService
from pilotage.model.records.observations import Fault
from pilotage.model.records.work import File, InputFile, Transfer
from pilotage.model.values.paths import copy_path
from pilotage.model.values.scopes import is_of_vo, split_identifier
from pilotage.model.values.slot_parts import BUNDLE

PER_VO = "vos"
"""The storage option with further options per VO, above all credentials."""

Progress = Callable[[int], None]
"""Called with the number of bytes read of a file so far. An exception in it gives up the delivery."""


class StorageError(Exception):
    """A storage could not be read or written. The message has the place and the reason.

    ``fault`` is who is to blame.
    """

    fault: Fault = ""


class DeliveryFailed(StorageError):
    """The file is not at its destination; the message has the place and the reason."""


class WrongPatternError(StorageError):
    """A pattern leads out of its storage, matches more than may be listed, or matches something that is no
    input."""


class WrongFileError(DeliveryFailed):
    """A file is not as it should be, or is refused. Its storage works and is not to blame."""

    fault: Fault = "file"


class AlteredFileError(WrongFileError):
    """A file at its source has another size or checksum than expected."""

    fault: Fault = "altered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A path below the URL of a storage. ``options`` are the storage's own, for its kind of file system."""

    url: str
    path: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.url.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The order to deliver one file, for one attempt of a transfer.

    ``size`` is in bytes; ``checksum`` is ``adler32:...``, ``md5:...``, ``sha256:...``, or empty if unknown.
    If ``scratch``, the source is a job's scratch area, and the mover removes a delivered file from it.
    ``instance`` is the name of the ordering Pilotage, because several may share a storage. ``service`` should
    deliver the file, if it can between these two storages. ``retried`` is true if another attempt follows a
    failure. Small files of one ``share`` are delivered one after another, ``bundle`` of them in a slot (D8).
    """

    transfer: int
    attempt: int
    file: str
    size: int
    checksum: str
    source: Place
    destination: Place
    scratch: bool = False
    instance: str = ""
    service: TransferService | None = None
    retried: bool = False
    share: str = ""
    bundle: int = BUNDLE

    @property
    def part(self) -> str:
        """Return the file's temporary name in the destination folder, for movers that need one."""
        return self._part(self.attempt)

    @property
    def former_parts(self) -> tuple[str, ...]:
        """Return destination paths where earlier attempts may have left a part."""
        folder = self.destination.path.rpartition("/")[0]
        parts = (self._part(attempt) for attempt in range(1, self.attempt))
        return tuple(f"{folder}/{part}".lstrip("/") for part in parts)

    def _part(self, attempt: int) -> str:
        # Folders take names of 255 bytes, and some letters have four.
        name = self.destination.path.rpartition("/")[2].encode()[:100].decode(errors="ignore")
        return f".{name}.{self.instance}.{self.transfer}.{attempt}.part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The file at the destination: bytes, checksum, and in words the ``way`` that it came."""

    size: int
    checksum: str
    way: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The answer to one order: the mover's ``reference`` to the delivery, or else the ``error``."""

    reference: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStatus:
    """The status of a delivery: ``bytes`` read so far, and the ``checksum`` of the delivered file if known.

    ``signs`` counts other signs of life, such as answers of a service where the file is queued. ``unknown``
    means that the mover does not have the reference, for example one of an earlier process. ``fault`` is who
    is to blame for a failure, ``way`` how a delivered file came.
    """

    state: Literal["moving", "delivered", "failed", "unknown"]
    bytes: int = 0
    signs: int = 0
    checksum: str = ""
    error: str = ""
    fault: Fault = ""
    way: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The abilities of a mover, by URL schemes such as ``file`` or ``https``.

    It delivers from any scheme in ``reads`` to any in ``writes``. With ``scan`` it lists storages that it
    reads; with ``remove`` it clears storages that it writes. With ``third_party`` the bytes pass directly
    between the storages, which is preferred. With ``open`` it reads and writes single files at these storages
    (``Reader``).
    """

    name: str
    reads: frozenset[str]
    writes: frozenset[str]
    scan: bool = False
    remove: bool = False
    third_party: bool = False
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A storage's free bytes, and its total bytes if it reports them (B18)."""

    free: int
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanLimits:
    """Limits of a scan: the matching ``files``, and ``seconds`` for all of it.

    Checksums are read for files up to ``checksum_size`` bytes while there is time; others stay empty. With
    ``any_name`` the scan leaves out files that have no legal name of an input. Otherwise it refuses them.
    Links that lead out of the storage are left out, or, with ``refuse_links``, refused if a pattern matches
    one.
    """

    files: int = 100_000
    seconds: float = 60.0
    checksum_size: int = 16 << 20
    any_name: bool = False
    refuse_links: bool = False


SCAN_LIMITS = ScanLimits()


class ScannedFiles(list[InputFile]):
    """The files that a scan found.

    ``left_out`` has other paths that match, with the reason why they are left out. ``paths`` has the real
    path of each file that the scan found through a link, by name.
    """

    def __init__(
        self,
        files: Iterable[InputFile] = (),
        left_out: Mapping[str, str] | None = None,
        paths: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(files)
        self.left_out, self.paths = dict(left_out or {}), dict(paths or {})


class Mover(Protocol):
    """Moves bytes. An adapter is made with a function to call when a delivery has ended.

    Every method may be called from several threads, and again after a crash. ``adapters/movers/contract.py``
    tests these promises.
    """

    @property
    def abilities(self) -> Abilities:
        """The abilities of this mover on this machine."""

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
        """Begin deliveries without waiting for them. The answers are in the order of ``deliveries``.

        A file appears under its name complete and correct, or not at all. An existing correct file counts as
        delivered. A delivered file is removed from its scratch area.
        """

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        """Return the status of each delivery. For an ended one, every call gives the same answer."""

    def cancel(self, references: Collection[str]) -> None:
        """Give up deliveries. Ended or unknown ones are left alone."""

    def scan(self, storage: Storage, glob: str, limits: ScanLimits = SCAN_LIMITS) -> list[InputFile]:
        """List all plain files below the storage that match, by name, with sizes and checksums.

        May return ``ScannedFiles``, which also has the matches that were left out.

        Blocks, at most as long as its limits allow plus one call to the storage. Raises StorageError, or
        WrongPatternError if the pattern is to blame.
        """

    def remove(self, storage: Storage, prefix: str) -> None:
        """Delete a folder of the scratch area, a copy that Pilotage made, or an output of a job.

        A missing one is no error. Blocks. Raises StorageError, also for any other path.
        """

    def close(self) -> None:
        """Give up every delivery, and wait a few seconds for their ends."""


class Readable(Protocol):
    """A stream to read bytes from."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes; empty at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """An address to read or write one file for a short time, without further credentials.

    The request needs ``headers``. ``authorities`` (PEM) replace the system's.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    authorities: str = field(default="", repr=False)


class Reader(Protocol):
    """A mover with the ability ``open``: it reads and writes single files. Every call blocks."""

    def open(self, storage: Storage, path: str) -> AbstractContextManager[Readable]:
        """Open a file to read it from its beginning. Raises StorageError."""

    def store(self, storage: Storage, path: str, stream: Readable, size: int) -> Delivered:
        """Write a file of ``size`` bytes, or nothing. Raises StorageError, and what ``stream`` raises."""

    def grant(self, storage: Storage, path: str, size: int | None = None) -> Grant | None:
        """Return an address to read a file, or to write it with ``size`` bytes; None if that is impossible.

        Raises StorageError.
        """


@runtime_checkable
class SpaceTeller(Protocol):
    """A mover that asks storages for their free space."""

    def space(self, storage: Storage) -> Space | None:
        """Return a storage's free space; None if it does not report any. Blocks. Raises StorageError."""


class Movers(Protocol):
    """The movers of this machine."""

    def for_delivery(self, source: str, destination: str) -> Mover:
        """Return the mover for a delivery between two URLs. Raises LookupError if there is none."""

    def for_storage(self, storage: Storage) -> Mover:
        """Return the mover that scans and clears a storage. Raises LookupError if there is none."""

    def for_reading(self, storage: Storage) -> Reader:
        """Return the mover that reads and writes a storage's single files.

        Raises LookupError if there is none.
        """

    def close(self) -> None:
        """Close every mover."""


def order(
    transfer: Transfer,
    file: File,
    storages: Mapping[str, Storage],
    instance: str,
    path: str = "",
    most_attempts: int = 1,
    catalogues: Iterable[ExternalCatalogue] = (),
    bundle: int = BUNDLE,
) -> Delivery:
    """Return the delivery of a transfer, given its file, the storages by name, and the instance's name.

    ``path`` is the replica's path at the source; empty means the file's own name. A transfer has up to
    ``most_attempts``. A download goes below the folder of copies, so that it cannot be mistaken for an
    original. ``catalogues`` are external ones. A slot carries a ``bundle`` of small files.

    Raises DeliveryFailed if a storage does not exist or a path leads out of it.
    """
    for name in (transfer.source, transfer.destination):
        if name not in storages:
            raise DeliveryFailed(f"storage {name} has left the federation")
    source, destination = storages[transfer.source], storages[transfer.destination]
    (scope, name), copied = split_identifier(file.name), transfer.direction == "download"
    scope = moving_scope(catalogues, scope)
    target = transfer.destination_path or (copy_path(instance, file.name) if copied else name)
    return Delivery(
        transfer=transfer.id,
        attempt=transfer.attempt,
        file=file.name,
        size=file.size,
        checksum=file.checksum,
        source=_place(source, transfer.source_path or path or name, scope),
        destination=_place(destination, target, scope),
        scratch=bool(transfer.source_path),
        instance=instance,
        service=_service(destination, scope) or _service(source, scope),
        retried=transfer.attempt < most_attempts,
        share=transfer.share,
        bundle=bundle,
    )


def options_for(storage: Storage, scope: str = "") -> dict[str, Any]:
    """Return the options for moving files of a scope: those under ``vos`` for its VO override the others.

    Without a scope, Pilotage itself lists, clears and reads.
    """
    return _of_scope(storage.options, scope)


def _of_scope(options: Mapping[str, Any], scope: str) -> dict[str, Any]:
    merged = {name: value for name, value in options.items() if name != PER_VO}
    for vo, more in options.get(PER_VO, {}).items():
        if is_of_vo(scope, vo):
            merged |= more
    return merged


def _service(storage: Storage, scope: str) -> TransferService | None:
    service = storage.transfer_service
    return service and replace(service, options=_of_scope(service.options, scope))


def _place(storage: Storage, path: str, scope: str) -> Place:
    if not is_below(path):
        raise DeliveryFailed(f"{path!r} is not a path below storage {storage.name}")
    return Place(url=storage.url, path=path, options=options_for(storage, scope))


def is_below(path: str) -> bool:
    """Return whether a relative path stays below its base."""
    return not any(part in ("", ".", "..") for part in path.split("/"))
