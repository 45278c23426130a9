"""Large files that go on where an earlier attempt broke off, on storages that allow it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from io import BytesIO
from typing import Protocol, runtime_checkable

from pilotage.ports.moving import Delivered, Delivery, Progress, Readable

from .backend import Backend, offers
from .blame import SourceBrokeError, SourceStream, source_errors
from .checksums import SourceChunks
from .folder_calls import beside
from .ranged import SeekableBackend, rest

RESUME_FROM = 16 << 20
"""Bytes of a file from which on its parts are kept: a smaller one is soon brought again."""


class Part(Protocol):
    """A file under its temporary name, open for us alone; it has ``size`` bytes."""

    size: int

    def read(self, size: int, /) -> bytes:
        """Read the bytes that it had when it was opened, from the first."""

    def write(self, data: bytes) -> None:
        """Add bytes at its end."""

    def publish(self, path: str) -> None:
        """Give the file its name, once all of it is safe."""

    def discard(self) -> None:
        """Delete it."""


@runtime_checkable
class PartsBackend(Backend, Protocol):
    """A backend that can go on with a file that is half written, and read it again at little cost."""

    def part(self, path: str, former: Sequence[str]) -> AbstractContextManager[Part]:
        """Open a part: the one at ``path`` or the last of the ``former`` ones, if nobody else writes to it.

        Else a new one. The others are deleted. It stays where it is neither published nor discarded.
        """


def resumed(
    source: Backend, target: Backend, delivery: Delivery, expected: Delivered, progress: Progress
) -> Delivered | None:
    """Copy a large file, going on with what there is of it; None where that cannot be.

    What an earlier attempt wrote may be of another version of the file: so a checksum must be known, which in
    the end the whole file must have. A part is kept where the source breaks off, and deleted for any other
    failure, such as a full disk. Raises DeliveryFailed, and whatever the storages raise.
    """
    large = expected.checksum and expected.size >= RESUME_FROM
    if not (large and (delivery.retried or delivery.former_parts)):
        return None
    if not (offers(source, SeekableBackend) and offers(target, PartsBackend)):
        return None
    path = delivery.destination.path
    with target.part(beside(path, delivery.part), delivery.former_parts) as part:
        try:
            return _written(source, part, delivery, expected, progress)
        except BaseException as error:
            if not (delivery.retried and isinstance(error, SourceBrokeError)):
                part.discard()
            raise


def _written(
    source: SeekableBackend, part: Part, delivery: Delivery, expected: Delivered, progress: Progress
) -> Delivered:
    """Add what is missing to a part, and give it its name if the whole file is right."""
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
    return checked.found
