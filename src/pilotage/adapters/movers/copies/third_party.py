"""Copies that storages make among themselves, checked like any other. No bytes pass through this machine."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, runtime_checkable

from pilotage.adapters.movers.copies.checksums import CheckedChunks, check
from pilotage.adapters.movers.processes.threads import Cancelled
from pilotage.adapters.movers.storages.backend import Backend, offers
from pilotage.adapters.movers.storages.backend_calls import nothing_left, reason, sibling_path
from pilotage.adapters.movers.transfer_services import TransferServiceError
from pilotage.ports.moving import (
    Delivered,
    Delivery,
    DeliveryFailed,
    Progress,
    StorageError,
    WrongFileError,
)

log = logging.getLogger(__name__)

Carry = Callable[[], str]
"""Copies the file of a delivery to a temporary name at its destination, and returns its path."""


class CannotFetch(Exception):
    """Two storages cannot copy to each other. Nothing was written."""


@runtime_checkable
class FetchingBackend(Backend, Protocol):
    """The backend of a storage that can fetch files from some other storages itself."""

    def fetch(self, source: Backend, path: str, draft: str, size: int, progress: Progress) -> None:
        """Let the storage fetch a file to the path ``draft``, making missing folders.

        Raises CannotFetch if the two storages cannot do that, and any other exception for a failure.
        """

    def describe(self, path: str, kind: str) -> Delivered | None:
        """Return bytes of a file and its checksum of a kind such as ``md5``, if the storage reports both."""


def fetched(source: Backend, target: Backend, delivery: Delivery, progress: Progress) -> Delivered | str:
    """Let the target fetch the file from the source. Return the reason if its bytes must be streamed instead.

    Stream also if the storages try and fail: they may not reach each other, and streaming shows whether the
    file itself is to blame. Raises DeliveryFailed if the result differs from the expected file.
    """
    if not offers(target, FetchingBackend):
        return "storages of this kind take no files by themselves"
    draft = sibling_path(delivery.destination.path, delivery.part)
    with nothing_left(draft, lambda: target.delete(draft)):
        try:
            target.fetch(source, delivery.source.path, draft, delivery.size, progress)
        except CannotFetch as refused:
            return str(refused)
        except (StorageError, OSError) as error:
            # A missing file is no fault of the storages, and streaming then fails quickly.
            level = logging.INFO if isinstance(error, FileNotFoundError) else logging.WARNING
            log.log(level, "transfer %d is streamed: %s", delivery.transfer, reason(error))
            with suppress(FileNotFoundError):
                target.delete(draft)
            return f"the storages' own copy failed: {reason(error)}"
        delivered = _checked(source, target, draft, delivery, progress)
        target.rename(draft, delivery.destination.path)
    return delivered


def carried(
    source: Backend, target: Backend, delivery: Delivery, progress: Progress, carry: Carry
) -> Delivered | None:
    """Let a service copy the file. Return None if it cannot reach these storages, or is not requested.

    If it tries and fails, do not stream: the operator who named a service wants it to carry the bytes. Raises
    the service's errors, and DeliveryFailed if the result differs from the expected file.
    """
    part = sibling_path(delivery.destination.path, delivery.part)
    with nothing_left(part, lambda: target.delete(part)):
        try:
            draft = carry()
        except CannotFetch:
            return None
        except (Cancelled, TransferServiceError):
            raise
        except Exception as error:
            raise TransferServiceError(reason(error)) from error  # neither storage was asked by us
    with nothing_left(draft, lambda: target.delete(draft)):
        delivered = _checked(source, target, draft, delivery, progress)
        target.rename(draft, delivery.destination.path)
    return delivered


def _described(storage: Backend, path: str, kind: str, size: int) -> Delivered | None:
    """Return a storage's description of a file; None if it has not computed it yet, as just after a write."""
    description = storage.describe(path, kind) if offers(storage, FetchingBackend) else None
    return None if description is None or (description.size == 0 and size > 0) else description


def _checked(
    source: Backend, target: Backend, draft: str, delivery: Delivery, progress: Progress
) -> Delivered:
    """Compare the copy with the expected file, or with its source. Read it if its storage reports nothing."""
    kind = delivery.checksum.partition(":")[0] or "adler32"
    description = _described(target, draft, kind, delivery.size)
    expected = Delivered(size=delivery.size, checksum=delivery.checksum)
    if not expected.checksum:
        expected = _described(source, delivery.source.path, kind, delivery.size) or expected
    if description is None:
        with target.read(draft) as stream:
            chunks = CheckedChunks(stream, draft, expected, progress)
            try:
                return chunks.all()
            except WrongFileError as wrong:
                if chunks.actual.size or not expected.size:
                    raise
                # It accepted all bytes and has none: neither the file nor its source is to blame.
                raise DeliveryFailed(f"{wrong}: its storage lost what was written") from None
    check(str(delivery.source), description, expected)
    progress(description.size)
    return description
