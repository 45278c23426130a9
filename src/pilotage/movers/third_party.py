"""Copies that storages make among themselves, checked as any other; no bytes pass through this machine."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, runtime_checkable

from pilotage.ports.moving import (
    Delivered,
    Delivery,
    DeliveryFailed,
    Progress,
    StorageError,
    WrongFileError,
)

from .backend import Backend, offers
from .carriers import CarrierError
from .checksums import CheckedChunks, check
from .folder_calls import beside
from .storage_failures import nothing_left, reason
from .threads import Cancelled

log = logging.getLogger(__name__)


Carry = Callable[[], str]
"""Brings the file of a delivery to a temporary name at its destination, and returns its path."""


class CannotFetch(Exception):
    """Two storages do not copy from one to the other; nothing was written."""


@runtime_checkable
class FetchingBackend(Backend, Protocol):
    """A backend whose storage can take files from some others by itself."""

    def fetch(self, source: Backend, path: str, draft: str, size: int, progress: Progress) -> None:
        """Have the storage bring a file of another one under the path ``draft``; missing folders are made.

        Raises CannotFetch where these two cannot do that, and any other exception where it went wrong.
        """

    def describe(self, path: str, kind: str) -> Delivered | None:
        """Bytes of a file and its checksum of a kind such as ``md5``, as far as the storage tells both."""


def fetched(source: Backend, target: Backend, delivery: Delivery, progress: Progress) -> Delivered | str:
    """Have the target take the file from the source; the reason where its bytes must be streamed instead.

    That is also where the storages try and fail: they may not reach each other, and where the file itself is
    to blame streaming tells. Raises DeliveryFailed where what came is not what must come.
    """
    if not offers(target, FetchingBackend):
        return "storages of this kind take no files by themselves"
    draft = beside(delivery.destination.path, delivery.part)
    with nothing_left(draft, lambda: target.delete(draft)):
        try:
            target.fetch(source, delivery.source.path, draft, delivery.size, progress)
        except CannotFetch as refused:
            return str(refused)
        except (StorageError, OSError) as error:
            # That a file is missing says nothing of the storages, and streaming fails with it in a moment.
            level = logging.INFO if isinstance(error, FileNotFoundError) else logging.WARNING
            log.log(level, "transfer %d is streamed: %s", delivery.transfer, reason(error))
            with suppress(FileNotFoundError):
                target.delete(draft)
            return f"the storages' own copy failed: {reason(error)}"
        found = _checked(source, target, draft, delivery, progress)
        target.rename(draft, delivery.destination.path)
    return found


def carried(
    source: Backend, target: Backend, delivery: Delivery, progress: Progress, carry: Carry
) -> Delivered | None:
    """Have a service bring the file; None where it does not reach these storages, or is not wanted to.

    Where it tried and failed nothing is streamed: whoever named a service wants the bytes to go that way.
    Raises whatever it does, and DeliveryFailed where what came is not what must come.
    """
    own = beside(delivery.destination.path, delivery.part)
    with nothing_left(own, lambda: target.delete(own)):
        try:
            draft = carry()
        except CannotFetch:
            return None
        except (Cancelled, CarrierError):
            raise
        except Exception as error:
            raise CarrierError(reason(error)) from error  # neither storage was asked by us
    with nothing_left(draft, lambda: target.delete(draft)):
        found = _checked(source, target, draft, delivery, progress)
        target.rename(draft, delivery.destination.path)
    return found


def _described(storage: Backend, path: str, kind: str, size: int) -> Delivered | None:
    """What a storage tells of a file; None where it has not worked that out, as right after a write."""
    found = storage.describe(path, kind) if offers(storage, FetchingBackend) else None
    return None if found is None or (found.size == 0 and size > 0) else found


def _checked(
    source: Backend, target: Backend, draft: str, delivery: Delivery, progress: Progress
) -> Delivered:
    """Compare the copy with what must be there, or with its source; read it if its storage tells nothing."""
    kind = delivery.checksum.partition(":")[0] or "adler32"
    found = _described(target, draft, kind, delivery.size)
    expected = Delivered(size=delivery.size, checksum=delivery.checksum)
    if not expected.checksum:
        expected = _described(source, delivery.source.path, kind, delivery.size) or expected
    if found is None:
        with target.read(draft) as stream:
            chunks = CheckedChunks(stream, draft, expected, progress)
            try:
                return chunks.all()
            except WrongFileError as wrong:
                if chunks.found.size or not expected.size:
                    raise
                # It took all bytes, and has none: neither the file nor its source is to blame.
                raise DeliveryFailed(f"{wrong}: its storage lost what was written") from None
    check(str(delivery.source), found, expected)
    progress(found.size)
    return found
