"""Move a storage: its files follow to another one, page by page, or are named as lost."""

import io
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.flow.calls.data.corrections import agrees, seen
from pilotage.flow.calls.places.conditions import unable_to_move
from pilotage.flow.errors import NotNow, NotThere
from pilotage.flow.outside.removals import remove_copies
from pilotage.flow.runtime import Runtime
from pilotage.model.records.data import Replica
from pilotage.model.records.federation import Federation, Storage
from pilotage.model.records.storage_moves import FileAtStorage, MovedFile
from pilotage.model.records.storage_spaces import FreeSpace, free_spaces
from pilotage.model.rules.sources import Sources
from pilotage.model.values.paths import SCRATCH, is_copy
from pilotage.model.values.types import DESCRIBED
from pilotage.policies.staging import storage_moves
from pilotage.ports.moving import StorageError

log = logging.getLogger(__name__)

MOST_FILES = 500
"""Most files of one call."""

TIME_LIMIT = 30.0
"""Seconds of one call in which files are looked at, where they are said to lie at the new storage."""

GIGABYTE = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedMove:
    """A move from one storage to another. ``same_place``: they are two names of one place.

    ``again``: files whose transfer failed are asked for again.
    """

    old: str
    new: str
    same_place: bool = False
    again: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePage:
    """What became of a page of files, and what is left at the old storage."""

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


def move(runtime: Runtime, wanted: WantedMove, after: str, actor: str) -> MovePage:
    """Move the next files after one. Raises ``NotThere``, and ``NotNow`` if it cannot work."""
    federation = runtime.store.federation()
    old, new = _storage(federation, wanted.old), _storage(federation, wanted.new)
    same = wanted.same_place or _place(old) == _place(new)
    _refuse_impossible(runtime, federation, old, new, same)
    page = found = runtime.store.storage_moves.page(old.name, new.name, after, MOST_FILES)
    now = runtime.clock()
    if same:
        there, found = _at_new(runtime, old, new, page)
        decision, told = storage_moves.record(found, there, old.name, new.name, now)
    else:
        decision, told = storage_moves.move(
            found, old.name, new.name, federation.staging, now, again=wanted.again
        )
    if not wanted.dry_run and decision.changes:
        are_two = not same and _are_two(runtime, federation, old, new)
        runtime.store.commit(decision, actor)
        if are_two:
            gone = _gone(runtime, wanted, after, found, told)
            copies = [Replica(file=one.file, storage=old.name, path=one.path) for one in gone]
            remove_copies(runtime, copies, now)
    left, size = runtime.store.storage_moves.total(old.name)
    is_last = len(page) < MOST_FILES and len(found) == len(page)
    following = "" if is_last else found[-1].file
    return MovePage(files=told, next=following, left=left, bytes_left=size, same_place=same)


def _storage(federation: Federation, name: str) -> Storage:
    found = next((one for one in federation.storages if one.name == name), None)
    if found is None:
        raise NotThere(f"there is no storage {name!r}; pilotage storages lists them")
    return found


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
    if why := unable_to_move(runtime, old.name, new.name):
        raise NotNow(f"this server cannot move files from {old.name} to {new.name}: {why}")
    size = runtime.store.storage_moves.total(old.name)[1]
    free = free_space(runtime)[new.name].gigabytes
    if free is not None and size > free * GIGABYTE:
        raise NotNow(f"{old.name} has {size / GIGABYTE:.1f} GB, and {new.name} has room for {free:.1f} GB")


def _at_new(
    runtime: Runtime, old: Storage, new: Storage, found: list[FileAtStorage]
) -> tuple[set[str], list[FileAtStorage]]:
    """Return which files lie at the new storage with the same bytes, and the files that were looked at.

    With one URL and the same options nothing needs a look. Raises ``NotNow`` if the new storage cannot
    be read.
    """
    if _place(old) == _place(new):
        return {one.file for one in found}, found
    end = time.monotonic() + TIME_LIMIT
    there: set[str] = set()
    looked: list[FileAtStorage] = []
    for one in found:
        seconds = end - time.monotonic()
        if seconds <= 0 and looked:
            break
        looked.append(one)
        if _lies_at(runtime, new, one, max(seconds, 1.0)):
            there.add(one.file)
    return there, looked


def _lies_at(runtime: Runtime, new: Storage, one: FileAtStorage, seconds: float) -> bool:
    try:
        if is_copy(one.path):
            # No scan lists copies. Size and checksum were compared when Pilotage made it.
            return _has(runtime, new, one.path)
        found = seen(runtime, new, one.file, seconds, one.path)
    except (StorageError, LookupError, OSError) as error:
        raise NotNow(f"{new.name} cannot be read: {error}") from error
    return found is not None and agrees(one.size, one.checksum, found.file)


def _are_two(runtime: Runtime, federation: Federation, old: Storage, new: Storage) -> bool:
    """Return whether two storages are surely two places: what is written at the old one is not at the new.

    False means that nobody knows, so that nothing may be deleted. Raises ``NotNow`` if they are one.
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
    wanted: WantedMove,
    after: str,
    found: Sequence[FileAtStorage],
    told: Sequence[MovedFile],
) -> Sequence[FileAtStorage]:
    """Return the moved files that the old storage has no more: a job may have begun to read others."""
    moved = {one.file for one in told if one.step == "moved"}
    kept = runtime.store.storage_moves.page(wanted.old, wanted.new, after, MOST_FILES) if moved else []
    moved -= {one.file for one in kept}
    return [one for one in found if one.file in moved]


def free_space(runtime: Runtime) -> dict[str, FreeSpace]:
    """Return the current free space of each storage, by name (B18). Raises ``NoFederation``."""
    told = runtime.store.transfer_queries.storage_spaces()
    return free_spaces(runtime.store.federation(), told, runtime.clock())
