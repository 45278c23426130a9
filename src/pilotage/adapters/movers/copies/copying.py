"""Copies between any two storages: complete with the right size and checksum, or not at all."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace

from pilotage.adapters.movers.copies.checksums import CheckedChunks, SourceChunks
from pilotage.adapters.movers.copies.drafts import DraftingBackend, LocalDraft
from pilotage.adapters.movers.copies.fault_attribution import SourceStream, source_errors
from pilotage.adapters.movers.copies.ranged import whole
from pilotage.adapters.movers.copies.resuming import resumed
from pilotage.adapters.movers.copies.third_party import Carry, carried, fetched
from pilotage.adapters.movers.storages.backend import Backend, PathEntry, offers
from pilotage.model.values.paths import scratch_path
from pilotage.ports.moving import Delivered, Delivery, DeliveryFailed, Progress, StorageError, WrongFileError

SCRATCH_DEPTH = scratch_path("", 0, 0).count("/")
"""Slashes in the path of an attempt's folder."""
Keep = Callable[[LocalDraft], None]
"""Takes a written file that does not have its name yet."""

THIRD_PARTY = "third-party: copied by the storages themselves"
"""The way of a file without any byte through this process."""

KINDS = {"folder": "folder", "link": "symbolic link", "other": "special file"}


def copy(
    source: Backend,
    target: Backend,
    delivery: Delivery,
    progress: Progress,
    carry: Carry | None = None,
    keep: Keep | None = None,
) -> Delivered:
    """Bring a file to its destination; one that is there and right counts as delivered.

    If the target can write a draft, ``keep`` gets the draft, and the caller publishes it later.

    The copy continues a part that an earlier attempt left, if the storages can and no other mover has it
    open. Other parts of earlier attempts are deleted, even if a mover still writes them. Without a known
    checksum only the size is checked, and the adler32 of the written bytes is returned. A file that is there
    already could be wrong, so it is replaced. Within one storage, a file of the scratch area is renamed. A
    transfer service comes first, then the storages' own copies, then streaming. Raises DeliveryFailed, and
    the storages' exceptions.
    """
    path, expected = delivery.destination.path, Delivered(size=delivery.size, checksum=delivery.checksum)
    if _is_there(target, path, expected, progress):
        return replace(expected, way="it was there already")
    if delivery.scratch and source is target:
        return replace(_renamed(target, delivery, expected, progress), way="renamed within its storage")
    # Do this before deleting parts: a service may still be writing one, and continue.
    delivered = carried(source, target, delivery, progress, carry) if carry else None
    if delivered is not None:
        delivered = replace(delivered, way="carried by the transfer service")
    elif isinstance(outcome := fetched(source, target, delivery, progress), Delivered):
        delivered = replace(outcome, way=THIRD_PARTY)
    elif begun := resumed(source, target, delivery, expected, progress):
        delivered = replace(begun, way=f"streamed, going on with what there was of it: {outcome}")
    # Do this only now: a partial file may have been useful, and an existing complete one left no part.
    for part in delivery.former_parts:
        _delete(target, part)
    if delivered is not None:
        return delivered
    return replace(_streamed(source, target, delivery, progress, keep), way=f"streamed: {outcome}")


def _streamed(
    source: Backend, target: Backend, delivery: Delivery, progress: Progress, keep: Keep | None
) -> Delivered:
    """Copy a file's bytes through this process. Return its description."""
    path, expected = delivery.destination.path, Delivered(size=delivery.size, checksum=delivery.checksum)
    with ExitStack() as open_files:
        with source_errors():
            stream = open_files.enter_context(whole(source, delivery.source.path, expected.size))
        checked = SourceChunks(SourceStream(stream), str(delivery.source), expected, progress)
        if keep and offers(target, DraftingBackend):
            keep(target.draft(path, delivery.part, checked))
        else:
            target.store(path, delivery.part, checked, expected.size)
    return checked.actual


def clear(source: Backend, delivery: Delivery) -> None:
    """Delete a delivered file from its scratch area. With the last file, delete its folders."""
    if not delivery.scratch:
        return
    _delete(source, delivery.source.path)
    folder = delivery.source.path.rpartition("/")[0]
    # An empty folder does no harm: a storage that cannot list or delete it may keep it.
    with suppress(OSError, StorageError):
        # Stop at the attempt's folder, .scratch/INSTANCE/JOB.ATTEMPT: the folders above are shared.
        while folder.count("/") >= SCRATCH_DEPTH and next(iter(source.entries(folder)), None) is None:
            source.delete_folder(folder, recursive=False)
            folder = folder.rpartition("/")[0]


def _is_there(target: Backend, path: str, expected: Delivered, progress: Progress) -> bool:
    """Return whether the destination is right already.

    Raises if something other than a file is in the way.
    """
    try:
        entry = target.entry(path)
    except FileNotFoundError:
        return False
    if entry.kind != "file":
        raise WrongFileError(f"{path} is in the way: a {KINDS[entry.kind]}, not a file")
    if not expected.checksum or entry.size != expected.size:
        return False
    try:
        with target.read(path) as stream:
            CheckedChunks(stream, path, expected, progress).all()
    except DeliveryFailed:
        return False
    return True


def _renamed(storage: Backend, delivery: Delivery, expected: Delivered, progress: Progress) -> Delivered:
    with source_errors(), storage.read(delivery.source.path) as stream:
        delivered = SourceChunks(stream, str(delivery.source), expected, progress).all()
    path = delivery.destination.path
    storage.rename(delivery.source.path, path)
    # The check read it before the renaming: a payload that is still alive may have replaced it.
    entry = storage.entry(path)
    if entry.kind == "file" and not entry.size:
        # A size that the storage has not computed yet does not count.
        with suppress(DeliveryFailed), storage.read(path) as stream:
            entry = PathEntry("file", CheckedChunks(stream, path, delivered, progress).all().size)
    if entry != PathEntry("file", delivered.size):
        _delete(storage, path)
        raise WrongFileError(f"{delivery.source} was exchanged while it was delivered")
    return delivered


def _delete(storage: Backend, path: str) -> None:
    with suppress(FileNotFoundError):
        storage.delete(path)
