"""Requests about the catalogue: files and datasets."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from pilotage.client.errors import NotFound, Refused, ServerFault, Unreachable
from pilotage.client.output_files import Digest
from pilotage.client.records import Record, Table, check_places, record_or_none
from pilotage.client.shapes import DATASET, DATASET_FILE, FILE, FORGOTTEN, REGISTERED, SCAN, UPLOADED
from pilotage.client.waiting import async_sleep

from .api import AsyncApi
from .connection import CHUNK, SERVICE_UNAVAILABLE

TRIES = 5
"""How often a file is sent if the connection breaks, or the server moves as many files as it can."""

PAUSE = 2.0
"""Seconds before a file is sent again; twice as many before the next time."""

Advance = Callable[[int], object]
"""Called with a number of bytes that were read or sent; with a negative one if they are sent again."""


class AsyncCatalogueRequests(AsyncApi):
    """Files and datasets."""

    async def files(
        self,
        *,
        match: str | None = None,
        scope: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Table[Record]:
        """Return files by identifier; of a scope, or of all the caller's. ``match`` is a pattern of names."""
        return await self._table("files", "/files", FILE, match=match, scope=scope, limit=limit, after=after)

    async def file(self, file: str) -> Record:
        """Return one file: size, checksum, origin and places."""
        return await self._record("/files/describe", FILE, file=file)

    @asynccontextmanager
    async def content(
        self, file: str, *, offset: int = 0, storage: str | None = None, as_it_lies: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the bytes of a file in chunks, from an ``offset`` on, from one ``storage`` or any.

        With ``as_it_lies`` the bytes of one replica are not compared with the catalogue.
        """
        query = {"file": file, "storage": storage, "as_it_lies": as_it_lies}
        async with self._connection.content("/files/content", offset, query) as response:
            yield response.aiter_bytes(CHUNK)

    async def upload(
        self,
        path: str | Path,
        file: str,
        *,
        storage: str = "",
        replace: bool = False,
        advance: Advance = lambda _: None,
    ) -> Record:
        """Upload a file of this machine under a name, ``SCOPE:NAME``, or a name in your VO's scope.

        It is visible when all its bytes are at the ``storage`` and their checksum is right. Without a storage
        the server takes the only one that accepts files. The answer has ``new``: repeated with the same bytes
        it is False. If the name has other bytes, it raises ``Conflict``, or replaces them with ``replace``.
        The file is read for its checksum, and then sent. ``advance`` gets the numbers of bytes that are read,
        then minus their sum, and the numbers of those that are sent.
        """
        with Path(path).open("rb") as content:
            checksum, size = await self._digest(content, file, advance)
            advance(-size)
            query = {"file": file, "checksum": checksum, "storage": storage or None, "replace": replace}
            answer = await self._send_bytes(content, size, query, advance)
        return await self._understood(answer, UPLOADED, Record)

    async def _digest(self, content: BinaryIO, file: str, advance: Advance) -> tuple[str, int]:
        """Return a file's checksum, of the kind that the catalogue has for the name, and its size."""
        known = ""
        with suppress(NotFound):
            known = str((await self.file(file))["checksum"])
        like = known if known.startswith(("adler32:", "md5:")) else "sha256:"
        digest, size = Digest(like), 0
        while chunk := content.read(CHUNK):
            digest.add(chunk)
            size += len(chunk)
            advance(len(chunk))
        return str(digest), size

    async def _send_bytes(
        self, content: BinaryIO, size: int, query: dict[str, str | bool | None], advance: Advance
    ) -> object:
        """Return the answer to the bytes of a file, which are sent again a few times if that may help."""
        pause = PAUSE
        for tries in reversed(range(TRIES)):
            try:
                return await self._connection.upload(
                    "/files/content", query, _bytes(content, size, advance), size
                )
            except (Unreachable, ServerFault) as failure:
                is_busy = failure.status in (None, SERVICE_UNAVAILABLE)
                if not tries or not is_busy:
                    raise
            advance(-min(content.tell(), size))
            await async_sleep(pause)
            pause *= 2
        raise AssertionError("the last try returns or raises")

    async def register(
        self, files: Sequence[Mapping[str, Any]], *, each: bool = False, dry_run: bool = False
    ) -> Record:
        """Register files that lie at storages under their names: all or none, unless ``each``."""
        body = {"files": [dict(file) for file in files], "each": each, "dry_run": dry_run}
        answer = await self._posted("/files", REGISTERED, None, body, needs=["refused"])
        check_places((refusal["at"] for refusal in answer["refused"]), len(files))
        return answer

    async def scan(self, storage: str, match: str, *, scope: str = "", dry_run: bool = False) -> Record:
        """Let the server register the files at a storage that match a pattern."""
        body = {"storage": storage, "match": match, "scope": scope, "dry_run": dry_run}
        return await self._posted("/files/scan", SCAN, None, body)

    async def forget_file(self, file: str, *, storage: str = "", dry_run: bool = False) -> Record | None:
        """Forget a file, or one replica. A dry run returns what would be done; originals always stay."""
        body = {"file": file, "storage": storage, "dry_run": dry_run}
        return await self._understood(
            await self._connection.send("POST", "/files/forget", body=body), (FORGOTTEN, None), record_or_none
        )

    async def datasets(
        self, *, scope: str | None = None, after: str | None = None, limit: int = 100
    ) -> Table[Record]:
        """Return datasets with their current versions; of a scope, or of all the caller's."""
        return await self._table("versions", "/datasets", DATASET, scope=scope, limit=limit, after=after)

    async def dataset_versions(
        self, dataset: str, *, after: str | None = None, limit: int = 100
    ) -> Table[Record]:
        """Return the versions of a dataset, the newest first."""
        return await self._table(
            "versions", "/datasets/versions", DATASET, dataset=dataset, after=after, limit=limit
        )

    async def dataset_files(
        self, dataset: str, *, version: int | None = None, after: str | None = None, limit: int = 100
    ) -> Table[Record]:
        """Return the files of one version, as they were when it was made; without a number the current."""
        return await self._table(
            "files",
            "/datasets/files",
            DATASET_FILE,
            dataset=dataset,
            limit=limit,
            after=after,
            version=version,
        )

    async def make_dataset(
        self,
        dataset: str,
        *,
        files: Sequence[str] = (),
        match: str = "",
        edit: str = "set",
        scope: str = "",
    ) -> Record:
        """Make the next version of a dataset of files, or of what matches. ``edit``: set, add or remove."""
        body = {"dataset": dataset, "scope": scope, "edit": edit, "files": list(files), "match": match}
        return await self._posted("/datasets", DATASET, None, body)

    async def forget_dataset(self, dataset: str, *, dry_run: bool = False) -> Record | None:
        """Forget a dataset with all its versions. Its files stay. A dry run returns its newest version."""
        body = {"dataset": dataset, "dry_run": dry_run}
        return await self._understood(
            await self._connection.send("POST", "/datasets/forget", body=body),
            (DATASET, None),
            record_or_none,
        )


async def _bytes(content: BinaryIO, size: int, advance: Advance) -> AsyncIterator[bytes]:
    """Yield as many bytes of a file as were announced. Raises ``Refused`` if it has fewer now."""
    content.seek(0)
    rest = size
    while rest:
        chunk = content.read(min(CHUNK, rest))
        if not chunk:
            raise Refused(f"{content.name} became shorter while it was sent; upload it again")
        rest -= len(chunk)
        yield chunk
        advance(len(chunk))
