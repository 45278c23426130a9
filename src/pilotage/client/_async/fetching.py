"""Bring the outputs of tasks home: checked, resumed, and named only when they are complete."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from pilotage.client import manifest
from pilotage.client.destination import OpenFolder
from pilotage.client.errors import ClientError, FetchFailed, Unreachable, WrongChecksum
from pilotage.client.subjects import RequestSubject
from pilotage.client.unpacking import FEWEST, MOST_BYTES, missing, unpacked
from pilotage.client.wanted import Digest, Fetched, WantedFile, arrived, hidden_files, is_right, placed

from .files import AsyncCatalogueRequests
from .tasks import AsyncTaskRequests

if TYPE_CHECKING:
    from .records import AsyncTask

TRIES = 5
"""How often a file is requested if the answer breaks off. Each try continues the last."""

Progress = Callable[[str, int, int], object]
"""Called with a file's name, its bytes that have come since the last call, and the bytes of all files."""


def _unseen(name: str, more: int, total: int) -> None:
    """Show no progress."""


def _advanced(progress: Progress, name: str, total: int, more: int) -> None:
    progress(name, more, total)


class AsyncFetching(AsyncTaskRequests, AsyncCatalogueRequests):
    """Brings outputs here."""

    async def fetch(
        self,
        task: "int | str | RequestSubject | AsyncTask",
        to: str | Path = ".",
        *,
        merged: bool = False,
        match: str = "*",
        hidden: bool = False,
        progress: Progress = _unseen,
    ) -> Fetched:
        """Download a task's outputs into a folder: each job's to JOB/NAME, its merge job's to NAME.

        Only what its merge jobs made, with ``merged``; only names that ``match``. Files whose names, or whose
        folders' names, begin with a dot are refused without ``hidden``: programs obey such files. Size and
        checksum are checked. Existing files are not read again, and partial files continue. Files that are
        not of the task stay as they are. ``manifest.csv`` beside them lists each output with its job. Files
        that failed are no error here: ``check()`` of the answer raises one.
        """
        number, folder = int((await self._task(task))["task"]), Path(to)
        outputs = await self.outputs(number)
        found, lost = arrived(number, outputs, merged, match)
        wanted = placed(found, folder)
        named = [one for one, _ in wanted]
        refused = ({} if hidden else hidden_files(named)) | manifest.in_the_way(named, folder)
        files = [one for one, _ in wanted if one.file not in refused]
        total = sum(one.size for one in files)
        came = await self._unpack_archives(number, files, progress, merged, match)
        failed = await self._download_all([one for one in files if one.file not in came], progress, total)
        failed |= refused
        fetched = [(one, output) for one, output in wanted if one.file not in failed]
        described = self.each(self.jobs, number, inputs=True, parameters=True)
        jobs = [job async for job in described] if fetched else []
        written, why = manifest.write(folder, list(manifest.rows_of(jobs, fetched)))
        return Fetched([one for one, _ in wanted], failed, lost, written, why)

    async def _unpack_archives(
        self, task: int, files: list[WantedFile], progress: Progress, merged: bool, match: str
    ) -> set[str]:
        """Bring small files, many with each request. Return the files that are here now.

        Other files need requests of their own: large ones, and the ones that no archive brought.
        """
        from tempfile import TemporaryFile  # only who fetches loads it

        (left, here), total = missing(files), sum(one.size for one in files)
        for one in here:
            progress(one.name, one.size, total)
        came = {one.file for one in here}
        first = min((one.file for one in left.values()), default="")
        after = max((one.file for one in files if one.file < first), default="")
        while len(left) >= FEWEST:
            with TemporaryFile() as archive:
                await self._read_archive(archive, task, after, match, merged)
                archive.seek(0)
                brought = list(unpacked(archive, left))
            if not brought:
                break
            for one in brought:
                progress(one.name, one.size, total)
                came.add(one.file)
                del left[one.place.name]
            # What an archive lacks cannot be read: the next one goes on after it.
            after = max(one.file for one in brought)
        return came

    async def _read_archive(self, archive: BinaryIO, task: int, after: str, match: str, merged: bool) -> None:
        """Write an archive to a file, as much of it as comes."""
        # A server without archives, or one that breaks off: a request for a single file says why.
        with suppress(ClientError):
            async with self.output_archive(task, after=after, match=match, merged=merged) as chunks:
                async for chunk in chunks:
                    archive.write(chunk)
                    if archive.tell() > MOST_BYTES:
                        return

    async def _download_all(self, wanted: list[WantedFile], progress: Progress, total: int) -> dict[str, str]:
        """Download files in turn. Return the failures by file."""
        failed = {}
        for one in wanted:
            try:
                await self.download(one, partial(_advanced, progress, one.name, total))
            except ClientError as failure:
                failed[one.file] = f"{one.file}: {failure}"
            except OSError as error:
                failed[one.file] = f"{one.file}: {error.filename or one.place.path}: {error.strerror}"
        return failed

    async def download(self, wanted: WantedFile, advanced: Callable[[int], object]) -> None:
        """Download one file. ``advanced`` is called with the number of bytes that are here.

        An existing correct file stays. A partial file is continued. If the result is wrong, read it once
        more from the start, because the part may belong to another file. Raises ``FetchFailed``.
        """
        with wanted.place.folder() as folder:
            if is_right(wanted, folder):
                advanced(wanted.size)
                return
            began = folder.has(wanted.part)
            try:
                await self._complete(wanted, folder, advanced)
            except WrongChecksum:
                # Without an older part, a second try would give the same: the file itself is wrong.
                if not began:
                    raise
                await self._complete(wanted, folder, lambda _: None)
            folder.rename(wanted.part, wanted.name)

    async def _complete(
        self, wanted: WantedFile, folder: OpenFolder, advanced: Callable[[int], object]
    ) -> None:
        digest = Digest(wanted.checksum)
        opened = folder.open(wanted.part, os.O_RDWR | os.O_CREAT)
        assert opened is not None  # made where it was missing
        with opened as part:
            size = digest.add_all(part)
            if size > wanted.size:
                part.seek(0)
                part.truncate(0)
                size, digest = 0, Digest(wanted.checksum)
            advanced(size)
            for left in reversed(range(TRIES)):
                try:
                    size += await self._read(wanted, size, part, digest, advanced)
                    break
                except Unreachable:
                    if not left:
                        raise
                    # The bytes before the break are written and counted, and the next try continues there.
                    size = part.tell()
            part.flush()
            # The next run trusts a file under its own name, even after a power cut.
            os.fsync(part.fileno())
        if size != wanted.size or wanted.checksum not in ("", str(digest)):
            folder.remove(wanted.part)
            wrong = f"{size} bytes, {digest}"
            raise WrongChecksum(f"came with {wrong}, should have {wanted.size} bytes, {wanted.checksum}")

    async def _read(
        self,
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
        async with self.content(wanted.file, offset=offset) as chunks:
            async for chunk in chunks:
                came += len(chunk)
                if offset + came > wanted.size:
                    raise FetchFailed(f"more than its {wanted.size} bytes came")
                part.write(chunk)
                digest.add(chunk)
                advanced(len(chunk))
        return came
