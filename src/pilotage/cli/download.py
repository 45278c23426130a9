"""Download files from the server: check them, resume them, and give them their names only when complete."""

import hashlib
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from .destination import Destination, OpenFolder
from .errors import BadInput, CommandFailure, Unreachable

if TYPE_CHECKING:
    from .client import Client

TRIES = 5
"""How often a file is requested if the answer breaks off. Each try continues the last."""

CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file of the catalogue, and its target here."""

    file: str
    size: int
    checksum: str
    place: Destination

    @classmethod
    def of(cls, view: Any, place: Destination) -> "WantedFile":
        """Return the file of a server's description. Raises BadInput if it is no description."""
        file, size, checksum = (view.get(name) for name in ("file", "size", "checksum"))
        if not (isinstance(file, str) and isinstance(checksum, str) and type(size) is int and size >= 0):
            raise BadInput(f"the server describes the file {file!r} without name, size or checksum")
        return cls(file, size, checksum, place)

    @property
    def name(self) -> str:
        """The file's name in its folder."""
        return self.place.path.name

    @property
    def part(self) -> str:
        """The file's name until it is complete."""
        return f".{self.name}.part"


class Digest:
    """A running checksum of the same kind as a given one: adler32, md5 or sha256."""

    def __init__(self, like: str) -> None:
        self._name = like.partition(":")[0] or "adler32"
        if self._name not in ("adler32", "md5", "sha256"):
            raise CommandFailure(f"the checksum {like!r} is of a kind that is not known here")
        # adler32 of no bytes is 1.
        self._value = 1
        self._hash = None if self._name == "adler32" else hashlib.new(self._name, usedforsecurity=False)

    def add(self, chunk: bytes) -> None:
        """Add the next bytes."""
        if self._hash:
            self._hash.update(chunk)
        else:
            self._value = zlib.adler32(chunk, self._value)

    def __str__(self) -> str:
        return f"{self._name}:{self._hash.hexdigest() if self._hash else f'{self._value:08x}'}"


def download(client: "Client", wanted: WantedFile, advanced: Callable[[int], object]) -> None:
    """Download one file. ``advanced`` is called with the number of bytes that are here. Raises
    CommandFailure.

    An existing correct file stays. A partial file is continued. If the result is wrong, read it once more
    from the start, because the part may belong to another file.
    """
    with wanted.place.folder() as folder:
        if _is_right(wanted, folder):
            advanced(wanted.size)
            return
        began = folder.has(wanted.part)
        try:
            _complete(client, wanted, folder, advanced)
        except WrongChecksum:
            # Without an older part, a second try would give the same: the file itself is wrong.
            if not began:
                raise
            _complete(client, wanted, folder, lambda _: None)
        folder.rename(wanted.part, wanted.name)


class WrongChecksum(CommandFailure):
    """A file arrived complete, but is wrong. Its part is deleted."""


def _is_right(wanted: WantedFile, folder: OpenFolder) -> bool:
    # Open it even if it cannot be compared: refuse a link in its place before reading anything.
    file = folder.open(wanted.name, os.O_RDONLY)
    if file is None:
        return False
    with file:
        if os.fstat(file.fileno()).st_size != wanted.size or not wanted.checksum:
            return False
        digest = Digest(wanted.checksum)
        _add_all(digest, file)
        return str(digest) == wanted.checksum


def _complete(
    client: "Client", wanted: WantedFile, folder: OpenFolder, advanced: Callable[[int], object]
) -> None:
    digest = Digest(wanted.checksum)
    opened = folder.open(wanted.part, os.O_RDWR | os.O_CREAT)
    assert opened is not None  # made where it was missing
    with opened as part:
        size = _add_all(digest, part)
        if size > wanted.size:
            part.seek(0)
            part.truncate(0)
            size, digest = 0, Digest(wanted.checksum)
        advanced(size)
        for left in reversed(range(TRIES)):
            try:
                size += _read(client, wanted, size, part, digest, advanced)
                break
            except Unreachable:
                if not left:
                    raise
                # The bytes before the break are written and counted, and the next try continues after them.
                size = part.tell()
        part.flush()
        # The next run trusts a file under its own name, even after a power cut.
        os.fsync(part.fileno())
    if size != wanted.size or wanted.checksum not in ("", str(digest)):
        folder.remove(wanted.part)
        wrong = f"{size} bytes, {digest}"
        raise WrongChecksum(f"came with {wrong}, should have {wanted.size} bytes, {wanted.checksum}")


def _read(
    client: "Client",
    wanted: WantedFile,
    offset: int,
    part: BinaryIO,
    digest: Digest,
    advanced: Callable[[int], object],
) -> int:
    """Read the missing bytes. Return their number. Bytes before a broken answer stay in the part."""
    if offset == wanted.size:
        return 0
    came = 0
    with client.content("/files/content", offset, file=wanted.file) as chunks:
        for chunk in chunks:
            came += len(chunk)
            if offset + came > wanted.size:
                raise CommandFailure(f"more than its {wanted.size} bytes came")
            part.write(chunk)
            digest.add(chunk)
            advanced(len(chunk))
    return came


def _add_all(digest: Digest, file: BinaryIO) -> int:
    size = 0
    while chunk := file.read(CHUNK):
        digest.add(chunk)
        size += len(chunk)
    return size
