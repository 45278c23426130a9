"""Checksums of files, computed while copying and compared with the expected ones, and those in HTTP."""

import base64
import binascii
import hashlib
from collections.abc import Iterator
from time import monotonic

from zlib_ng import zlib_ng  # its adler32 uses the processor's vectors: 12 GB/s, zlib's 0.6

from pilotage.model.values.types import plain_checksum
from pilotage.ports.moving import AlteredFileError, Delivered, Progress, Readable, WrongFileError

DIGESTS = {"adler32": "adler32", "md5": "md5", "sha256": "sha-256"}
"""Kinds of checksums by their names in HTTP."""

CHUNK = 1 << 20
SMALLEST_CHUNK = 1 << 14
SLOW, FAST = 1.0, 0.05
"""Seconds: after a chunk that takes longer, the next is a quarter as large; after one that takes less,
twice."""

DIGITS = {"adler32": 8, "md5": 32, "sha256": 64}
"""Kinds of checksums, each with its number of hexadecimal digits."""


def checksum_of(kind: str, digits: str) -> str:
    """Return a checksum as ``md5:...`` from the digits that a storage reports; empty if they are invalid.

    They may be upper case, and an adler32 may lack leading zeros. All zeros mean that the storage did not
    compute a checksum.
    """
    text = str(plain_checksum(f"{kind}:{digits.strip()}")).partition(":")[2]
    whole = len(text) == DIGITS[kind] and set(text) <= set("0123456789abcdef")
    return f"{kind}:{text}" if whole and text.strip("0") else ""


def adler32(stream: Readable, limit: int) -> tuple[int, str]:
    """Return bytes and checksum of a stream with up to ``limit`` bytes. A longer one gets no checksum."""
    checksum, size = Checksum(""), 0
    while chunk := stream.read(CHUNK):
        checksum.add(chunk)
        size += len(chunk)
        if size > limit:
            return size, ""
    return size, str(checksum)


class Checksum:
    """A running checksum of the same kind as a given one; adler32 without one."""

    def __init__(self, like: str) -> None:
        self._name = like.partition(":")[0]
        by_hashlib = self._name in ("md5", "sha256")
        self._digest = hashlib.new(self._name, usedforsecurity=False) if by_hashlib else None
        self._adler32 = 1

    def add(self, chunk: bytes) -> None:
        """Add the next bytes."""
        if self._digest:
            self._digest.update(chunk)
        else:
            self._adler32 = zlib_ng.adler32(chunk, self._adler32)

    def __str__(self) -> str:
        return f"{self._name}:{self._digest.hexdigest()}" if self._digest else f"adler32:{self._adler32:08x}"


def in_time(stream: Readable) -> Iterator[bytes]:
    """Read a stream to its end, in smaller chunks if it is slow.

    So even a slow stream reports about once per second. Otherwise it would seem dead, and its rate would
    jump.
    """
    length, began = CHUNK, monotonic()
    while chunk := stream.read(length):
        seconds = monotonic() - began
        if seconds > SLOW:
            length = max(SMALLEST_CHUNK, length // 4)
        elif seconds < FAST:
            length = min(CHUNK, 2 * length)
        yield chunk
        began = monotonic()


class CheckedChunks:
    """The bytes of a file in chunks. At the end they raise WrongFileError unless size and checksum are right.

    They never yield more bytes than expected. ``found`` describes the bytes read, after the end. ``begun`` is
    the file's beginning, which is read first and not yielded again.
    """

    wrong: type[WrongFileError] = WrongFileError

    def __init__(
        self,
        stream: Readable,
        label: str,
        expected: Delivered,
        progress: Progress,
        begun: Readable | None = None,
    ) -> None:
        self._stream, self._label, self._expected, self._progress = stream, label, expected, progress
        self._begun = begun
        self.actual = Delivered(size=0, checksum="")

    def __iter__(self) -> Iterator[bytes]:
        checksum, size = Checksum(self._expected.checksum), 0
        while self._begun and (chunk := self._begun.read(CHUNK)):
            checksum.add(chunk)
            size += len(chunk)
            self._progress(size)
        for chunk in in_time(self._stream):
            size += len(chunk)
            if size > self._expected.size:
                break
            checksum.add(chunk)
            self._progress(size)
            yield chunk
        self.actual = Delivered(size=size, checksum=str(checksum))
        check(self._label, self.actual, self._expected, self.wrong)
        self._progress(size)

    def all(self) -> Delivered:
        """Read to the end."""
        for _ in self:
            pass
        return self.actual


class SourceChunks(CheckedChunks):
    """The chunks of a delivery's source file. At the end they raise AlteredFileError if it is wrong."""

    wrong = AlteredFileError


def check(
    label: str, actual: Delivered, expected: Delivered, wrong: type[WrongFileError] = WrongFileError
) -> None:
    """Raise WrongFileError unless a file is as expected. An empty checksum is unknown."""
    if actual.size != expected.size:
        more = "at least " if actual.size > expected.size else ""
        raise wrong(f"{label} has {more}{actual.size} bytes, must have {expected.size}")
    if expected.checksum not in ("", actual.checksum):
        raise wrong(f"{label} has checksum {actual.checksum}, must have {expected.checksum}")


def digest(header: str, kind: str) -> str:
    """Return a checksum as ``md5:...``; empty if the header has none of this kind.

    adler32 is in hexadecimal, the others in base64; some servers send all in hexadecimal.
    """
    for part in header.split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() != DIGESTS[kind]:
            continue
        hexadecimal = kind == "adler32" or len(value) == DIGITS[kind]
        if checksum := checksum_of(kind, value if hexadecimal else _hexadecimal(value)):
            return checksum
    return ""


def _hexadecimal(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).hex()
    except binascii.Error:
        return ""
