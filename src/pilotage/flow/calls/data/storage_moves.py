"""Move the files of a storage to another one, page by page, and name the lost ones."""

import io
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.flow.calls.data.corrections import agrees, look_at
from pilotage.flow.calls.places.conditions import unable_to_move
from pilotage.flow.errors import NotNow, NotThere
from pilotage.flow.outside.removals import remove_copies
from pilotage.flow.runtime import Runtime
from pilotage.model.records.data import Replica
from pilotage.model.records.federation import Federation, Storage
from pilotage.model.records.storage_moves import FileAtStorage, MovedFile
from pilotage.model.records.storage_spaces import FreeSpace, free_spaces
from pilotage.model.rules.sources import Sources
from pilotage.model.values.paths import SCRATCH, is_stored_here
from pilotage.model.values.types import DESCRIBED
from pilotage.policies.staging import storage_moves
from pilotage.ports.moving import StorageError

log = logging.getLogger(__name__)

MOST_FILES = 500
"""Most files of one call."""

TIME_LIMIT = 30.0
"""Seconds that one call has to check files at the new storage that are reported to be there."""

GIGABYTE = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedMove:
    """A move from one storage to another. ``same_place``: they are two names of one place.

    ``again`` requests files again after a failed transfer.
    """

    old: str
    new: str
    same_place: bool = False
    again: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePage:
    """The results for a page of files, and the rest at the old storage."""

    __pydantic_config__ = DESCRIBED

    files: tuple[MovedFile, ...]
    """The files of this page."""
    next: str
    """The last of them; empty: there are no more."""
    left: int
    """Files that the catalogue still knows at the old storage."""
    bytes_left: int
    """Their bytes."""
    same_place: bool
    """Whether both are names of one place."""


def move(runtime: Runtime, request: WantedMove, after: str, actor: str) -> MovePage:
    """Move the next files after one. Raises ``NotThere``, and ``NotNow`` if it cannot work."""
    federation = runtime.store.federation()
    old, new = _storage(federation, request.old), _storage(federation, request.new)
    same = request.same_place or _place(old) == _place(new)
    _refuse_impossible(runtime, federation, old, new, same)
    page = files = runtime.store.storage_moves.page(old.name, new.name, after, MOST_FILES)
    now = runtime.clock()
    if same:
        there, files = _at_new(runtime, old, new, page)
        decision, moves = storage_moves.record(files, there, old.name, new.name, now)
    else:
        decision, moves = storage_moves.move(
            files, old.name, new.name, federation.staging, now, again=request.again
        )
    if not request.dry_run and decision.changes:
        are_two = not same and _are_two(runtime, federation, old, new)
        runtime.store.commit(decision, actor)
        if are_two:
            gone = _gone(runtime, request, after, files, moves)
            copies = [Replica(file=file.file, storage=old.name, path=file.path) for file in gone]
            remove_copies(runtime, copies, now)
    count, size = runtime.store.storage_moves.total(old.name)
    is_last = len(page) < MOST_FILES and len(files) == len(page)
    following = "" if is_last else files[-1].file
    return MovePage(files=moves, next=following, left=count, bytes_left=size, same_place=same)


def _storage(federation: Federation, name: str) -> Storage:
    storage = next((storage for storage in federation.storages if storage.name == name), None)
    if storage is None:
        raise NotThere(f"there is no storage {name!r}; pilotage storages lists them")
    return storage


def _place(storage: Storage) -> tuple[str, object]:
    return storage.url.rstrip("/"), storage.options


def _refuse_impossible(
    runtime: Runtime, federation: Federation, old: Storage, new: Storage, same: bool
) -> None:
    if old.name == new.name:
        raise NotNow("both are the same storage: name the one that the files go to")
    if not {"write_lan", "write_wan"} <= {*old.blacklisted}:
        raise NotNow(
            f"{old.name} still takes new files: pilotage storages drain {old.name} --because ... first"
        )
    if same:
        return
    if {"write_lan", "write_wan"} & {*new.blacklisted}:
        raise NotNow(f"{new.name} takes no files: pilotage storages open {new.name}")
    if not Sources(federation, ()).ranked([old.name], new.name):
        raise NotNow(f"nothing may be read from {old.name} to {new.name}: drain {old.name}, do not close it")
    if obstacle := unable_to_move(runtime, old.name, new.name):
        raise NotNow(f"this server cannot move files from {old.name} to {new.name}: {obstacle}")
    size = runtime.store.storage_moves.total(old.name)[1]
    free = free_space(runtime)[new.name].gigabytes
    if free is not None and size > free * GIGABYTE:
        raise NotNow(f"{old.name} has {size / GIGABYTE:.1f} GB, and {new.name} has room for {free:.1f} GB")


def _at_new(
    runtime: Runtime, old: Storage, new: Storage, files: list[FileAtStorage]
) -> tuple[set[str], list[FileAtStorage]]:
    """Return the files that are at the new storage with the same bytes, and all files that were checked.

    With one URL and the same options all files are there. Raises ``NotNow`` if the new storage cannot be
    read.
    """
    if _place(old) == _place(new):
        return {file.file for file in files}, files
    end = time.monotonic() + TIME_LIMIT
    there: set[str] = set()
    looked: list[FileAtStorage] = []
    for file in files:
        seconds = end - time.monotonic()
        if seconds <= 0 and looked:
            break
        looked.append(file)
        if _lies_at(runtime, new, file, max(seconds, 1.0)):
            there.add(file.file)
    return there, looked


def _lies_at(runtime: Runtime, new: Storage, file: FileAtStorage, seconds: float) -> bool:
    try:
        if is_stored_here(file.path):
            # No scan lists it. Size and checksum were compared when Pilotage wrote it.
            return _has(runtime, new, file.path)
        finding = look_at(runtime, new, file.file, seconds, file.path)
    except (StorageError, LookupError, OSError) as error:
        raise NotNow(f"{new.name} cannot be read: {error}") from error
    return finding is not None and agrees(file.size, file.checksum, finding.file)


def _are_two(runtime: Runtime, federation: Federation, old: Storage, new: Storage) -> bool:
    """Return whether two storages are surely two places: a file written at the old one is not at the new one.

    After False, delete nothing: they may be one place. Raises ``NotNow`` if they surely are.
    """
    word = secrets.token_hex(16).encode()
    folder = f"{SCRATCH}/{federation.name}/move-{word.decode()}"
    try:
        runtime.deliveries.store(old, f"{folder}/probe", io.BytesIO(word), len(word))
    except (StorageError, LookupError, OSError) as error:
        log.warning("storage %s cannot be written, so copies stay there: %s", old.name, error)
        return False
    try:
        is_there = _has(runtime, new, f"{folder}/probe")
    except (StorageError, LookupError, OSError) as error:
        log.warning("storage %s cannot be read, so copies stay at %s: %s", new.name, old.name, error)
        return False
    finally:
        runtime.deliveries.remove(old, folder)
    if is_there:
        raise NotNow(f"{old.name} and {new.name} are two names of one place: add --same-place")
    return True


def _has(runtime: Runtime, storage: Storage, path: str) -> bool:
    """Return whether a storage has a file. Raises StorageError, LookupError or OSError if it is not read."""
    try:
        with runtime.deliveries.open(storage, path) as stream:
            stream.read(1)
    except (StorageError, OSError) as error:
        if isinstance(error, FileNotFoundError) or isinstance(error.__cause__, FileNotFoundError):
            return False
        raise
    return True


def _gone(
    runtime: Runtime,
    request: WantedMove,
    after: str,
    files: Sequence[FileAtStorage],
    moves: Sequence[MovedFile],
) -> Sequence[FileAtStorage]:
    """Return the moved files that have left the old storage: a job may have begun to read others."""
    moved = {file.file for file in moves if file.step == "moved"}
    remaining = runtime.store.storage_moves.page(request.old, request.new, after, MOST_FILES) if moved else []
    moved -= {file.file for file in remaining}
    return [file for file in files if file.file in moved]


def free_space(runtime: Runtime) -> dict[str, FreeSpace]:
    """Return the current free space of each storage, by name (B18). Raises ``NoFederation``."""
    reports = runtime.store.transfer_queries.storage_spaces()
    return free_spaces(runtime.store.federation(), reports, runtime.clock())
