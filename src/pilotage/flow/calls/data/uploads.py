"""Files that people upload: written under a path of their own, checked, and then registered."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from pilotage.adapters.movers.copies.checksums import Checksum
from pilotage.flow.calls.data.catalogue import StillWanted, refuse_beyond_quota
from pilotage.flow.calls.data.storage_moves import free_space
from pilotage.flow.errors import NotNow, NotThere
from pilotage.flow.outside.removals import remove_copies
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Change, Create, Decision, Forget
from pilotage.model.records.data import File, Replica
from pilotage.model.records.federation import Federation, Storage
from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import upload_folder, upload_path, uploads_folder
from pilotage.model.values.scopes import name_of, split_identifier
from pilotage.ports.moving import Readable, WrongFileError, options_for
from pilotage.store import FileConflict
from pilotage.store.files.catalogue import CatalogueEntry
from pilotage.store.transfers.storages import Removal

GIGABYTE = 10**9

MOST_SECONDS = 86_400.0
"""Most seconds of one upload."""

LEFT_FOR = MOST_SECONDS + 3600.0
"""Seconds after which the bytes of an upload go that is not registered: its server ended meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedUpload:
    """A file to upload: its description, the person, and the storage; an empty one lets Pilotage choose.

    With ``replace`` it replaces a file of its name with other bytes. An operator has no quota.
    """

    file: File
    owner: Identity
    actor: str
    storage: str = ""
    replace: bool = False
    is_operator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedFile:
    """A file after its upload; it is not ``new`` if the catalogue had it with the same bytes."""

    file: str
    size: int
    checksum: str
    storage: str
    new: bool


def present(runtime: Runtime, upload: WantedUpload) -> UploadedFile | None:
    """Return a file if the catalogue has it with the same bytes, so that nothing needs to be sent.

    Raises ``FileConflict`` if it has other bytes, unless they are to be replaced.
    """
    entry = runtime.store.catalogue.entry(upload.file.name)
    if entry is None:
        return None
    if not _is_same(upload.file, entry.file):
        if upload.replace:
            return None
        known, given = entry.file, upload.file
        raise FileConflict(known.name, (known.size, known.checksum), (given.size, given.checksum))
    storages = {storage.name for storage in runtime.store.federation().storages}
    holding = [replica.storage for replica in entry.replicas if replica.storage in storages]
    if not holding or upload.storage not in ("", *holding):
        return None
    return _uploaded(upload, upload.storage or holding[0], new=False)


def _is_same(given: File, known: File) -> bool:
    return given.size == known.size and given.checksum == known.checksum


def storage_for(runtime: Runtime, upload: WantedUpload) -> Storage:
    """Return the storage of an upload with room for it.

    Raises ``NotThere`` for an unknown one, and ``NotNow`` if none takes it, or several do and none is named.
    """
    federation = runtime.store.federation()
    if upload.storage:
        storage = _named(runtime, federation, upload.storage)
    else:
        taking = [one for one in federation.storages if not one.tape and not _obstacle(runtime, one)]
        if len(taking) != 1:
            names = ", ".join(storage.name for storage in taking) or "none takes files now"
            raise NotNow(f"name the storage of the upload: {names}")
        (storage,) = taking
    free = free_space(runtime)[storage.name].gigabytes
    if free is not None and upload.file.size > free * GIGABYTE:
        raise NotNow(
            f"{storage.name} has room for {free:.3g} GB, and the file has {_gigabytes(upload.file.size)}"
        )
    return storage


def _named(runtime: Runtime, federation: Federation, name: str) -> Storage:
    storage = next((storage for storage in federation.storages if storage.name == name), None)
    if storage is None:
        names = ", ".join(sorted(storage.name for storage in federation.storages))
        raise NotThere(f"there is no storage {name!r}; known are {names}")
    if obstacle := _obstacle(runtime, storage):
        raise NotNow(f"{name} takes no uploads: {obstacle}")
    return storage


def _obstacle(runtime: Runtime, storage: Storage) -> str:
    """Return why a storage takes no uploads; empty if it does."""
    if {"write_lan", "write_wan"} & {*storage.blacklisted}:
        return "nothing may be written there now"
    if storage.scratch:
        return "it is scratch space, where nothing is kept"
    return runtime.deliveries.obstacle_to_write(storage)


def refuse_beyond_quotas(runtime: Runtime, upload: WantedUpload) -> None:
    """Raise ``NotNow`` if an upload would exceed the quota of its person or their VO."""
    refuse_beyond_quota(runtime, upload.actor)
    if upload.is_operator:
        return
    federation, owner = runtime.store.federation(), upload.owner
    quotas = [("you have", uploads_folder(federation.name, owner.vo, owner.name), "uploaded_by_user")]
    if owner.vo:
        quotas.append((f"{owner.vo} has", uploads_folder(federation.name, owner.vo), "uploaded_by_vo"))
    for who, folder, name in quotas:
        most = getattr(federation.quotas.for_owner(owner), name)
        if (have := runtime.store.uploaded_bytes(folder)) + upload.file.size > most * GIGABYTE:
            raise NotNow(
                f"{who} uploaded {_gigabytes(have)}, and the most is {most:g} GB (quotas.{name}); forget "
                "uploads with `pilotage files forget`, or ask an operator"
            )


def store(runtime: Runtime, upload: WantedUpload, storage: Storage, stream: Readable) -> UploadedFile:
    """Write the bytes of a stream, and register the file. Blocks.

    No file is visible before all its bytes are written and checked. What a broken upload leaves is removed.
    Raises TooManyReaders, StorageError, ``FileConflict`` if another person was faster with other bytes, and
    the stream's exceptions.
    """
    federation = runtime.store.federation()
    folder = uploads_folder(federation.name, upload.owner.vo, upload.owner.name)
    path = upload_path(folder, secrets.token_hex(16), name_of(upload.file.name))
    scoped = replace(storage, options=options_for(storage, split_identifier(upload.file.name)[0]))
    with runtime.file_readers.place(upload.owner.key):
        removal = _remove_later(runtime, upload, storage, path)
        is_registered = False
        try:
            checked = CheckedStream(stream, upload.file.size, upload.file.checksum)
            runtime.deliveries.store(scoped, path, checked, upload.file.size)
            refuse_beyond_quotas(runtime, upload)
            is_registered = _register(runtime, upload, storage, path)
        finally:
            if not is_registered:
                runtime.deliveries.remove(storage, removal.path)
    if is_registered:
        runtime.store.removals.done(removal, inf)
    return _uploaded(upload, storage.name, new=is_registered)


def _remove_later(runtime: Runtime, upload: WantedUpload, storage: Storage, path: str) -> Removal:
    """Record that a path is to be removed if it is not registered by then, even if this server ends now."""
    now = runtime.clock()
    due = now + LEFT_FOR
    removal = Removal(
        storage=storage.name, path=upload_folder(path), file=upload.file.name, since=now, due=due, last=due
    )
    runtime.store.removals.add([removal])
    return removal


def _register(runtime: Runtime, upload: WantedUpload, storage: Storage, path: str) -> bool:
    """Register a file at its path. Return False if the storage has the same file at another path.

    Raises ``FileConflict``, and ``StillWanted`` if the file that it replaces is read.
    """
    entry = runtime.store.catalogue.entry(upload.file.name)
    replaced = entry if entry and upload.replace and not _is_same(upload.file, entry.file) else None
    here = Replica(file=upload.file.name, storage=storage.name, path=path)
    changes: tuple[Change, ...] = (*_forget(replaced), Create(records=(upload.file, here), cause="uploaded"))
    decision = Decision(step="upload", time=runtime.clock(), seed=runtime.seeds(), changes=changes)
    try:
        runtime.store.commit(decision, upload.actor)
    except FileConflict:
        if replaced:
            raise StillWanted(
                f"{upload.file.name} is read by a task or moved; wait, or cancel that"
            ) from None
        raise
    if replaced:
        remove_copies(runtime, replaced.replicas, runtime.clock())
    entry = runtime.store.catalogue.entry(upload.file.name)
    return entry is not None and here in entry.replicas


def _forget(entry: CatalogueEntry | None) -> Sequence[Forget]:
    if entry is None:
        return ()
    return (Forget(replicas=entry.replicas, files=(entry.file.name,), if_unwanted=True),)


def _uploaded(upload: WantedUpload, storage: str, *, new: bool) -> UploadedFile:
    file = upload.file
    return UploadedFile(file=file.name, size=file.size, checksum=file.checksum, storage=storage, new=new)


def _gigabytes(size: int) -> str:
    return f"{size / GIGABYTE:.3g} GB"


class CheckedStream:
    """A stream with a known checksum. The last bytes of a wrong one are not handed on.

    So no storage gets all bytes of a wrong file, and none gives it a name.
    """

    def __init__(self, stream: Readable, size: int, checksum: str) -> None:
        self._stream, self._rest, self._expected = stream, size, checksum
        self._checksum = Checksum(checksum)

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes. Raises ``WrongFileError``."""
        data = self._stream.read(size)
        self._checksum.add(data)
        self._rest -= len(data)
        if self._rest <= 0 and str(self._checksum) != self._expected:
            raise WrongFileError(f"what was sent has checksum {self._checksum}, must have {self._expected}")
        return data
