"""Files of Pilotage's catalogue in Snakemake: ``storage.pilotage("pilotage://SCOPE/NAME")``."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.common import Operation
from snakemake_interface_storage_plugins.io import IOCacheStorageInterface, Mtime, get_constant_prefix
from snakemake_interface_storage_plugins.settings import StorageProviderSettingsBase
from snakemake_interface_storage_plugins.storage_object import StorageObjectGlob, StorageObjectRead
from snakemake_interface_storage_plugins.storage_object import StorageObjectWrite as Write
from snakemake_interface_storage_plugins.storage_provider import (
    ExampleQuery,
    QueryType,
    StorageProviderBase,
    StorageQueryValidationResult,
)

from .names import identifier, is_whole, query_of

if TYPE_CHECKING:
    from pilotage.client import Client

__all__ = ["StorageObject", "StorageProvider", "StorageProviderSettings"]

STAGED = "PILOTAGE_STAGED_INPUTS"
"""The variable with the folder where a pilot has put the inputs of the job."""


@dataclass
class StorageProviderSettings(StorageProviderSettingsBase):
    """Options, as ``--storage-pilotage-url``. Snakemake reads no other form of ``Optional``."""

    url: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "Address of the Pilotage server (default: as of the command pilotage).",
            "env_var": True,
        },
    )
    token: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={"help": "Token of the server (default: as of the command pilotage).", "env_var": True},
    )
    storage: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "Storage for new files (default: the only one that takes files).",
            "env_var": False,
        },
    )


class StorageProvider(StorageProviderBase):
    """The catalogue of one server."""

    @cached_property
    def client(self) -> "Client":
        """The client, made at the first request: Snakemake imports all plugins at each start."""
        from pilotage.client import Client

        try:
            return Client(url=self._setting("url"), token=self._setting("token"))
        except ValueError as error:
            raise WorkflowError(f"Pilotage: {error}") from error

    @property
    def storage(self) -> str:
        """The storage for new files; empty: the server's choice."""
        return self._setting("storage") or ""

    def _setting(self, name: str) -> str | None:
        return getattr(self.settings, name, None) if self.settings else None

    @classmethod
    def example_queries(cls) -> list[ExampleQuery]:
        """Return queries for the documentation."""
        return [
            ExampleQuery("pilotage://atlas/runs/7.root", "A file in the scope of a VO", QueryType.ANY),
            ExampleQuery("pilotage://user.ada~atlas/counts.txt", "A file in one's own scope", QueryType.ANY),
        ]

    def rate_limiter_key(self, query: str, operation: Operation) -> Any:  # noqa: ARG002
        """Return what requests are counted by: the server."""
        return "pilotage"

    def default_max_requests_per_second(self) -> float:
        """Return how many requests the server takes of one person."""
        return 50.0

    def use_rate_limiter(self) -> bool:
        """Return whether requests are counted: the server itself makes a person's requests wait."""
        return False

    @classmethod
    def is_valid_query(cls, query: str) -> StorageQueryValidationResult:
        """Return whether a query names a file, perhaps with wildcards."""
        reason = None if is_whole(query) else "write pilotage://SCOPE/NAME"
        return StorageQueryValidationResult(query=query, valid=reason is None, reason=reason)


class StorageObject(StorageObjectRead, Write, StorageObjectGlob):
    """A file of the catalogue."""

    provider: StorageProvider

    def __post_init__(self) -> None:
        """Begin without knowing the file."""
        self._known: Any = None

    @property
    def identifier(self) -> str:
        """The file's name in the catalogue."""
        return identifier(self.query)

    @property
    def _client(self) -> "Client":
        return self.provider.client

    def _record(self) -> Any:
        """Return the catalogue's record of the file; None if there is none."""
        from pilotage.client import NotFound

        if self._known is None:
            try:
                self._known = self._client.file(self.identifier)
            except NotFound:
                return None
        return self._known

    def _file(self) -> Any:
        if (record := self._record()) is None:
            raise FileNotFoundError(f"the catalogue has no file {self.identifier}")
        return record

    async def inventory(self, cache: IOCacheStorageInterface) -> None:
        """Read all files of the file's folder with few requests."""
        parent = self.get_inventory_parent()
        if parent in cache.exists_in_storage:
            return
        cache.exists_in_storage[parent] = True
        for record in self._below(identifier(f"{parent}/"), "*"):
            suffix = local_suffix(record["file"])
            key = self.cache_key(suffix)
            cache.exists_in_storage[key] = True
            cache.mtime[key] = Mtime(storage=float(record["since"] or 0))
            cache.size[key] = int(record["size"])

    def get_inventory_parent(self) -> str:
        """Return the folder of the file."""
        return str(self.query).rpartition("/")[0]

    def local_suffix(self) -> str:
        """Return where the file is below the local folder: SCOPE/NAME."""
        return local_suffix(self.identifier)

    def cleanup(self) -> None:
        """Nothing is left here."""

    def exists(self) -> bool:
        """Return whether the catalogue has the file at any storage."""
        record = self._record()
        return bool(record and record["replicas"])

    def mtime(self) -> float:
        """Return when the file came into the catalogue."""
        return float(self._file()["since"] or 0)

    def size(self) -> int:
        """Return its bytes."""
        return int(self._file()["size"])

    def checksum(self) -> str | None:
        """Return its checksum if it is of a kind that Snakemake knows."""
        checksum = str(self._file()["checksum"])
        return checksum if checksum.startswith(("md5:", "sha256:")) else None

    def retrieve_object(self) -> None:
        """Link the input that the pilot has brought, or else download the file."""
        path = self.local_path()
        staged = os.environ.get(STAGED)
        here = Path(staged) / self.identifier.partition(":")[2] if staged else None
        if here and here.is_file() and here.stat().st_size == self.size():
            path.unlink(missing_ok=True)
            path.symlink_to(here.resolve())
            return
        from pilotage.client.output_files import Digest

        record = self._file()
        digest, part = Digest(record["checksum"]), path.with_name(f".{path.name[:200]}.part")
        try:
            with part.open("wb") as sink, self._client.content(self.identifier) as chunks:
                for chunk in chunks:
                    digest.add(chunk)
                    sink.write(chunk)
            if part.stat().st_size != record["size"] or record["checksum"] not in ("", str(digest)):
                raise WorkflowError(f"{self.identifier} came with {part.stat().st_size} bytes, {digest}")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def store_object(self) -> None:
        """Upload the file. It replaces one of its name."""
        path = self.local_path()
        if path.is_dir():
            raise WorkflowError(f"{self.print_query}: the catalogue has files, no folders; write an archive")
        self._known = None
        self._client.upload(path, self.identifier, storage=self.provider.storage, replace=True)

    def remove(self) -> None:
        """Forget the file; uploaded bytes are deleted."""
        from pilotage.client import NotFound

        self._known = None
        with suppress(NotFound):
            self._client.forget_file(self.identifier)

    def list_candidate_matches(self) -> Iterable[str]:
        """Return the queries of all files that begin as this one does before its first wildcard."""
        prefix = get_constant_prefix(self.query, strip_incomplete_parts=True)
        return [query_of(record["file"]) for record in self._below(identifier(prefix), "**")]

    def _below(self, folder: str, match: str) -> Iterable[Any]:
        """Return the files of a folder, by its name in the catalogue with a slash at its end."""
        scope, _, name = folder.partition(":")
        if not scope:
            raise WorkflowError(f"{self.print_query}: the scope has no wildcard; name it")
        pattern = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name) + match
        return list(self._client.each(self._client.files, match=pattern, scope=scope))


def local_suffix(name: str) -> str:
    """Return where a file of the catalogue is below the local folder."""
    return name.replace(":", "/", 1)
