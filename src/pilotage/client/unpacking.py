"""Take wanted files out of a tar archive of outputs. The server may be anybody's."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from .errors import FetchFailed
from .wanted import Digest, WantedFile, is_right

FEWEST = 20
"""Fewer small files than these are requested one by one."""

LARGEST = 1 << 20
"""Most bytes of a file that comes in an archive."""

MOST_BYTES = 128 << 20
"""Most bytes of an archive that are read."""


def missing(wanted: Sequence[WantedFile]) -> tuple[dict[str, WantedFile], list[WantedFile]]:
    """Return the small files that are not here yet, by their names in archives, and those that are."""
    found, here = {}, []
    for one in wanted:
        if one.size <= LARGEST and one.checksum:
            try:
                with one.place.folder() as folder:
                    is_here = is_right(one, folder)
            except (FetchFailed, OSError):
                continue  # a request of its own says what is wrong
            if is_here:
                here.append(one)
            else:
                found[one.place.name] = one
    return found, here


def unpacked(archive: BinaryIO, wanted: Mapping[str, WantedFile]) -> Iterator[WantedFile]:
    """Yield the wanted files of an archive that came whole and right, after each has its name here."""
    import tarfile  # only who fetches loads it

    seen = set[str]()
    try:
        with tarfile.open(fileobj=archive, mode="r:") as members:
            for member in members:
                one = wanted.get(member.name)
                # A name that comes twice in one archive is written once.
                if one is not None and one.file not in seen and member.isreg() and member.size == one.size:
                    stream = members.extractfile(member)
                    if stream is not None and _is_written(one, stream.read()):
                        seen.add(one.file)
                        yield one
    except (tarfile.TarError, ValueError, OverflowError):
        return  # it broke off, or holds nonsense: the next one goes on after the last whole file


def _is_written(one: WantedFile, content: bytes) -> bool:
    try:
        digest = Digest(one.checksum)
        digest.add(content)
        if len(content) != one.size or str(digest) != one.checksum:
            return False
        with one.place.folder() as folder:
            part = folder.open(one.part, os.O_RDWR | os.O_CREAT)
            assert part is not None  # made where it was missing
            with part:
                part.truncate(0)
                part.write(content)
            folder.rename(one.part, one.name)
    except (FetchFailed, OSError):
        return False  # a request of its own says what is wrong
    return True
