"""Take wanted files out of a tar archive of outputs. The user may not trust the server."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from .errors import FetchFailed
from .output_files import Digest, FetchedFile, is_right

FEWEST = 20
"""Fewer small files than these are requested one by one."""

LARGEST = 1 << 20
"""Most bytes of a file that comes in an archive."""

MOST_BYTES = 128 << 20
"""Most bytes of an archive that are read."""


def missing(files: Sequence[FetchedFile]) -> tuple[dict[str, FetchedFile], list[FetchedFile]]:
    """Return the small files that are not here yet, by their names in archives, and the ones that are."""
    absent, here = {}, []
    for file in files:
        if file.size <= LARGEST and file.checksum:
            try:
                with file.place.folder() as folder:
                    is_here = is_right(file, folder)
            except (FetchFailed, OSError):
                continue  # the request for this file will report the fault
            if is_here:
                here.append(file)
            else:
                absent[file.place.name] = file
    return absent, here


def unpack(archive: BinaryIO, files: Mapping[str, FetchedFile]) -> Iterator[FetchedFile]:
    """Yield the wanted files of an archive that came whole and right, after each has its name here."""
    import tarfile  # only who fetches loads it

    rest = dict(files)
    try:
        with tarfile.open(fileobj=archive, mode="r:") as members:
            for member in members:
                file = rest.pop(member.name, None)
                # A name that comes twice in one archive is written once.
                if file is not None and member.isreg() and member.size == file.size:
                    stream = members.extractfile(member)
                    if stream is not None and _is_written(file, stream.read()):
                        yield file
    except (tarfile.TarError, ValueError, OverflowError):
        return  # it broke off, or holds nonsense: the next archive begins after the last whole file


def _is_written(file: FetchedFile, content: bytes) -> bool:
    try:
        digest = Digest(file.checksum)
        digest.add(content)
        if len(content) != file.size or str(digest) != file.checksum:
            return False
        with file.place.folder() as folder:
            part = folder.open(file.part, os.O_RDWR | os.O_CREAT)
            assert part is not None  # made where it was missing
            with part:
                part.truncate(0)
                part.write(content)
            folder.rename(file.part, file.name)
    except (FetchFailed, OSError):
        return False  # the request for this file will report the fault
    return True
