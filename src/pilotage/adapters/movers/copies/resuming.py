"""Resume large files after a broken attempt, on storages that allow it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from io import BytesIO
from typing import Protocol, runtime_checkable

from pilotage.adapters.movers.copies.checksums import SourceChunks
from pilotage.adapters.movers.copies.fault_attribution import SourceBrokeError, SourceStream, source_errors
from pilotage.adapters.movers.copies.ranged import SeekableBackend, rest
from pilotage.adapters.movers.storages.backend import Backend, offers
from pilotage.adapters.movers.storages.backend_calls import sibling_path
from pilotage.ports.moving import Delivered, Delivery, Progress, Readable

RESUME_FROM = 16 << 20
"""Least size in bytes of files whose parts are kept. A smaller one is quickly copied again."""


class Part(Protocol):
    """A file under its temporary name, open only for us. It has ``size`` bytes."""

    size: int

    def read(self, size: int, /) -> bytes:
        """Read the bytes that it had when it was opened, from the first."""

    def write(self, data: bytes) -> None:
        """Append bytes."""

    def publish(self, path: str) -> None:
        """Give the file its name once all of it is safe."""

    def discard(self) -> None:
        """Delete it."""


@runtime_checkable
class PartsBackend(Backend, Protocol):
    """A backend that can continue a partial file, and read it again at little cost."""

    def part(self, path: str, former: Sequence[str]) -> AbstractContextManager[Part]:
        """Open a part: the one at ``path``, or the last of the ``former`` ones if no other mover has it open.

        Otherwise make a new one. Delete the others. A part stays until it is published or discarded.
        """


def resumed(
    source: Backend, target: Backend, delivery: Delivery, expected: Delivered, progress: Progress
) -> Delivered | None:
    """Copy a large file, continuing its existing part; return None if that is impossible.

    An earlier attempt's bytes may belong to another version of the file. So the checksum must be known, and
    the complete file must match it. The part stays if the source breaks off. It is deleted after any other
    failure, such as a full disk. Raises DeliveryFailed, and the storages' exceptions.
    """
    large = expected.checksum and expected.size >= RESUME_FROM
    if not (large and (delivery.retried or delivery.former_parts)):
        return None
    if not (offers(source, SeekableBackend) and offers(target, PartsBackend)):
        return None
    path = delivery.destination.path
    with target.part(sibling_path(path, delivery.part), delivery.former_parts) as part:
        try:
            return _written(source, part, delivery, expected, progress)
        except BaseException as error:
            if not (delivery.retried and isinstance(error, SourceBrokeError)):
                part.discard()
            raise


def _written(
    source: SeekableBackend, part: Part, delivery: Delivery, expected: Delivered, progress: Progress
) -> Delivered:
    """Append the missing bytes to a part, and give it its name if the whole file is right."""
    at, begun = delivery.source, part.size
    with ExitStack() as open_files:
        stream: Readable = BytesIO()
        if begun < expected.size:
            with source_errors():
                stream = open_files.enter_context(rest(source, at.path, begun, expected.size))
        begins = part if begun else None
        checked = SourceChunks(SourceStream(stream), str(at), expected, progress, begun=begins)
        for chunk in checked:
            part.write(chunk)
    part.publish(delivery.destination.path)
    return checked.actual
