"""Bring the outputs of tasks home: checked, resumed, and named only when they are complete."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from pilotage.client import manifest
from pilotage.client.destination import OpenFolder
from pilotage.client.errors import ClientError, Conflict, FetchFailed, Unreachable, WrongChecksum
from pilotage.client.output_files import (
    Digest,
    FetchedFile,
    FetchResult,
    folder_name,
    hidden_files,
    is_right,
    stored_outputs,
    with_places,
)
from pilotage.client.subjects import RequestSubject
from pilotage.client.unpacking import FEWEST, MOST_BYTES, missing, unpack

from .files import AsyncCatalogueRequests
from .tasks import AsyncTaskRequests

if TYPE_CHECKING:
    from .records import AsyncTask

TRIES = 5
"""How often a file is requested if the answer breaks off. Each try continues the last."""

Progress = Callable[[str, int, int], object]
"""Called with a file's name, its bytes that have come since the last call, and the bytes of all files."""


def _advance(progress: Progress, name: str, total: int, more: int) -> None:
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
        progress: Progress = lambda *_: None,
    ) -> FetchResult:
        """Download a task's outputs into a folder: each job's to JOB/NAME, its merge job's to NAME.

        Only what its merge jobs made, with ``merged``; only names that ``match``. Files and folders with a
        dot before their names are refused without ``hidden``: programs obey such files. Size and
        checksum are checked. Existing files are not read again, and partial files continue. Files that are
        not of the task stay as they are. ``manifest.csv`` beside them lists each output with its job, and
        once the task has ended, ``ro-crate-metadata.json`` describes what ran. Files that failed are no error
        here: ``check()`` of the answer raises one.
        """
        number = int((await self._task(task))["task"])
        outputs = await self.outputs(number)
        folder = await self._folder(number, Path(to), [output["file"] for output in outputs])
        stored, lost = stored_outputs(number, outputs, merged, match)
        placed_outputs = with_places(stored, folder)
        named = [file for file, _ in placed_outputs]
        refused = ({} if hidden else hidden_files(named)) | manifest.in_the_way(named, folder)
        files = [file for file, _ in placed_outputs if file.file not in refused]
        total = sum(file.size for file in files)
        came = await self._unpack_archives(number, files, progress, merged, match)
        failed = await self._download_all([file for file in files if file.file not in came], progress, total)
        failed |= refused
        fetched = [(file, output) for file, output in placed_outputs if file.file not in failed]
        described = self.each(self.jobs, number, inputs=True, parameters=True)
        jobs = [job async for job in described] if fetched else []
        written, no_manifest = manifest.write(folder, list(manifest.rows_of(jobs, fetched)))
        no_crate = await self._bring_crate(number, folder, [file.place.name for file in named])
        brought = [file for file, _ in placed_outputs]
        return FetchResult(brought, failed, lost, written, no_manifest, folder, no_crate)

    async def _bring_crate(self, task: int, folder: Path, files: list[str]) -> str:
        """Write the RO-Crate of an ended task beside its outputs. Return what prevents that, if anything."""
        from pilotage.client import crates  # only who fetches loads it

        if refused := crates.files_refused(files, folder):
            return refused
        try:
            async with self.manifest_content(task) as chunks:
                with crates.new_file(folder) as file:
                    async for chunk in chunks:
                        file.write(chunk)
        except Conflict:
            return ""  # it has not ended
        except ClientError as failure:
            return str(failure)
        except OSError as error:
            return f"{error.filename or folder}: {error.strerror}"
        return ""

    async def _folder(self, task: int, to: Path, outputs: list[str]) -> Path:
        """Return where a task's outputs go: below a folder that has another task's, into one of its name."""
        if not manifest.is_of_others(to, outputs):
            return to
        name = (await self.task(task)).name
        named = to / folder_name(name, task)
        return named.with_name(f"{named.name}-{task}") if manifest.is_of_others(named, outputs) else named

    async def _unpack_archives(
        self, task: int, files: list[FetchedFile], progress: Progress, merged: bool, match: str
    ) -> set[str]:
        """Bring small files, many with each request. Return the files that are here now.

        Each other file needs a request: large ones, and the ones that no archive brought.
        """
        from tempfile import TemporaryFile  # only who fetches loads it

        (rest, here), total = missing(files), sum(file.size for file in files)
        for file in here:
            progress(file.name, file.size, total)
        came = {file.file for file in here}
        first = min((file.file for file in rest.values()), default="")
        after = max((file.file for file in files if file.file < first), default="")
        while len(rest) >= FEWEST:
            with TemporaryFile() as archive:
                await self._read_archive(archive, task, after, match, merged)
                archive.seek(0)
                unpacked_files = list(unpack(archive, rest))
            if not unpacked_files:
                break
            for file in unpacked_files:
                progress(file.name, file.size, total)
                came.add(file.file)
                del rest[file.place.name]
            # A file that an archive lacks cannot be read: the next archive begins after it.
            after = max(file.file for file in unpacked_files)
        return came

    async def _read_archive(self, archive: BinaryIO, task: int, after: str, match: str, merged: bool) -> None:
        """Write an archive to a file, as much of it as comes."""
        # A server without archives, or one that breaks off: a request for a single file gets the reason.
        with suppress(ClientError):
            async with self.output_archive(task, after=after, match=match, merged=merged) as chunks:
                async for chunk in chunks:
                    archive.write(chunk)
                    if archive.tell() > MOST_BYTES:
                        return

    async def _download_all(self, files: list[FetchedFile], progress: Progress, total: int) -> dict[str, str]:
        """Download files in turn. Return the failures by file."""
        failed = {}
        for file in files:
            try:
                await self.download(file, partial(_advance, progress, file.name, total))
            except ClientError as failure:
                failed[file.file] = f"{file.file}: {failure}"
            except OSError as error:
                failed[file.file] = f"{file.file}: {error.filename or file.place.path}: {error.strerror}"
        return failed

    async def download(self, file: FetchedFile, advanced: Callable[[int], object]) -> None:
        """Download one file. ``advanced`` is called with the number of bytes that are here.

        An existing correct file stays. A partial file is continued. If the result is wrong, read it once
        more from the start, because the part may belong to another file. Raises ``FetchFailed``.
        """
        with file.place.folder() as folder:
            if is_right(file, folder):
                advanced(file.size)
                return
            began = folder.has(file.part)
            try:
                await self._complete(file, folder, advanced)
            except WrongChecksum:
                # Without an older part, a second try would give the same: the file itself is wrong.
                if not began:
                    raise
                await self._complete(file, folder, lambda _: None)
            folder.rename(file.part, file.name)

    async def _complete(
        self, file: FetchedFile, folder: OpenFolder, advanced: Callable[[int], object]
    ) -> None:
        digest = Digest(file.checksum)
        opened = folder.open(file.part, os.O_RDWR | os.O_CREAT)
        assert opened is not None  # made where it was missing
        with opened as part:
            size = digest.add_all(part)
            if size > file.size:
                part.seek(0)
                part.truncate(0)
                size, digest = 0, Digest(file.checksum)
            advanced(size)
            for tries in reversed(range(TRIES)):
                try:
                    size += await self._read(file, size, part, digest, advanced)
                    break
                except Unreachable:
                    if not tries:
                        raise
                    # The bytes before the break are written and counted, and the next try continues there.
                    size = part.tell()
            part.flush()
            # The next run trusts a file under its own name, even after a power cut.
            os.fsync(part.fileno())
        if size != file.size or file.checksum not in ("", str(digest)):
            folder.remove(file.part)
            wrong = f"{size} bytes, {digest}"
            raise WrongChecksum(f"came with {wrong}, should have {file.size} bytes, {file.checksum}")

    async def _read(
        self,
        file: FetchedFile,
        offset: int,
        part: BinaryIO,
        digest: Digest,
        advanced: Callable[[int], object],
    ) -> int:
        """Read the missing bytes. Return their number. Bytes before a broken answer stay in the part."""
        if offset == file.size:
            return 0
        came = 0
        async with self.content(file.file, offset=offset) as chunks:
            async for chunk in chunks:
                came += len(chunk)
                if offset + came > file.size:
                    raise FetchFailed(f"more than its {file.size} bytes came")
                part.write(chunk)
                digest.add(chunk)
                advanced(len(chunk))
        return came
