"""Compare files at storages with descriptions of them: which have changed since, and which are gone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from pilotage.flow.calls.data.corrections import agrees, look_at
from pilotage.flow.runtime import Runtime
from pilotage.model.records.federation import Storage
from pilotage.model.records.work import InputFile
from pilotage.model.values.identity import Identity
from pilotage.model.values.types import DESCRIBED
from pilotage.ports.moving import StorageError
from pilotage.request_budget import asking

TIME_LIMIT = 20.0
"""Seconds for the files of one request."""

LATE = f"there was no time to look at it: a request has {TIME_LIMIT:g} s for that"

Kind = Literal["changed", "gone", "unread"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """A file that is not as described."""

    __pydantic_config__ = DESCRIBED

    at: int
    """Its place among the described ones, from 0."""
    kind: Kind
    """``changed``, ``gone``, or ``unread``, because no storage answers."""
    text: str
    """How it differs, in words."""
    size: int = 0
    """Bytes of a changed one now."""
    checksum: str = ""
    """Checksum of a changed one now; empty: it is too large to be read for that."""


def differences(
    runtime: Runtime, files: Sequence[InputFile], person: Identity, seconds: float = TIME_LIMIT
) -> Iterator[FileDifference]:
    """Yield the files that are not as described at any storage that the catalogue or they name."""
    storages = {storage.name: storage for storage in runtime.store.federation().storages}
    end = monotonic() + seconds
    for at, file in enumerate(asking(files)):
        if difference := _difference(runtime, at, file, storages, person, end):
            yield difference


def _difference(
    runtime: Runtime, at: int, file: InputFile, storages: dict[str, Storage], person: Identity, end: float
) -> FileDifference | None:
    entry = runtime.store.catalogue.entry(file.identifier)
    paths = {replica.storage: replica.path for replica in entry.replicas} if entry else {}
    changed: InputFile | None = None
    problem = ""
    for name in dict.fromkeys((*paths, *file.replicas)):
        if name not in storages:
            continue
        try:
            with runtime.look_ups.place(name, person, max(0.0, end - monotonic())):
                seconds = end - monotonic()
                if seconds <= 0:
                    return FileDifference(at=at, kind="unread", text=LATE)
                there = look_at(runtime, storages[name], file.identifier, seconds, paths.get(name, ""))
        except (StorageError, LookupError, OSError) as error:
            problem = f"it cannot be read at {name}: {error}"
            continue
        if there is None:
            continue
        # Large files are not read for their checksum: then the catalogue's counts.
        is_known = entry is None or there.file.checksum or agrees(entry.file.size, entry.file.checksum, file)
        if is_known and agrees(file.size, file.checksum, there.file):
            return None
        changed = changed or there.file
    if changed:
        text = f"it has {_described(changed)} now, and had {_described(file)}"
        return FileDifference(at=at, kind="changed", text=text, size=changed.size, checksum=changed.checksum)
    if problem:
        return FileDifference(at=at, kind="unread", text=problem)
    where = ", ".join(dict.fromkeys((*paths, *file.replicas))) or "no storage is named"
    return FileDifference(at=at, kind="gone", text=f"it is gone ({where})")


def _described(file: InputFile) -> str:
    return f"{file.size:,} bytes{f', {file.checksum}' if file.checksum else ''}"
