"""Resolve contradicting descriptions of a file: its bytes decide, or an operator.

A description can be wrong. Others of the VO use the same names, so a wrong description must not block a file:
if two contradict each other, ask the storages. If these cannot show the bytes, authors may correct their own
description, until a job has started to read the file.
"""

import glob
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Create, Creation, Decision
from pilotage.model.records.data import CorrectedFile
from pilotage.model.records.federation import Storage
from pilotage.model.records.work import File, InputFile, Replica
from pilotage.model.rules.folders import refuse_link
from pilotage.model.values.paths import is_stored_here
from pilotage.model.values.scopes import split_identifier
from pilotage.ports.moving import ScannedFiles, StorageError

log = logging.getLogger(__name__)

MOST_FILES = 20
"""Most files per request for which storages are asked."""

TIME_LIMIT = 30.0
"""Time limit in s for asking, per request."""


def correct(runtime: Runtime, descriptions: Sequence[InputFile], actor: str, *, trusted: bool = False) -> int:
    """Correct known files that contradict the given descriptions, if the given ones are right. Return how
    many.

    They are right if the bytes agree at the storages in the catalogue, or else at the given ones. The known
    description wins if Pilotage moved the file under it. A ``trusted`` operator is right without this check.
    If no storage can show the bytes, the author of an unconfirmed description may replace it.
    """
    conflicts = runtime.store.queries.conflicts([description.described() for description in descriptions])
    agreeing = {description.identifier for at, description in enumerate(descriptions) if at not in conflicts}
    limit = time.monotonic() + TIME_LIMIT
    records: list[Creation] = []
    corrected = 0
    for at in [*conflicts][:MOST_FILES]:
        # An author who gives both descriptions in one request has not withdrawn the known one.
        author = "" if descriptions[at].identifier in agreeing else actor
        creations = [*_correction(runtime, descriptions[at], author, limit, trusted=trusted)]
        corrected += bool(creations)
        records += creations
    record(runtime, records, "described as its bytes, or an operator, say", actor)
    return corrected


def record(runtime: Runtime, records: Sequence[Creation], cause: str, actor: str) -> None:
    """Record the findings about files, if there are any."""
    if records:
        change = Create(records=tuple(records), cause=cause)
        decision = Decision(step="register", time=runtime.clock(), seed=runtime.seeds(), changes=(change,))
        runtime.store.commit(decision, actor)


def _correction(
    runtime: Runtime, description: InputFile, author: str, limit: float, *, trusted: bool
) -> Iterator[Creation]:
    entry = runtime.store.catalogue.entry(description.identifier)
    if entry is None or entry.file.job is not None:
        return
    storages = {storage.name: storage for storage in runtime.store.federation().storages}
    if not trusted and any(is_stored_here(replica.path) for replica in entry.replicas):
        return  # it was moved or uploaded, so Pilotage has checked its bytes
    known_paths = {replica.storage: replica.path for replica in entry.replicas}
    places = [
        storages[name] for name in dict.fromkeys((*known_paths, *description.replicas)) if name in storages
    ]
    right = {} if trusted else _right_at(runtime, description, entry.file, places, known_paths, limit)
    takes_back = (
        not trusted and right == {} and runtime.store.catalogue.author(description.identifier) == author != ""
    )
    if not (trusted or right or takes_back):
        return
    log.info(
        "%s: %d bytes, and not %d as it was known", description.identifier, description.size, entry.file.size
    )
    lying = dict.fromkeys(description.replicas, "") | known_paths if takes_back else right or {}
    yield from described(entry.file, description, lying, author if takes_back else "")


def described(
    file: File, right: InputFile | None, lying: Mapping[str, str], author: str = ""
) -> Iterator[Creation]:
    """Yield the ``right`` description of a known file, unless it is None, and the file's replicas.

    ``lying`` has its path by storage; an empty path means its own name.
    """
    if right is not None:
        yield CorrectedFile(
            name=file.name,
            size=right.size,
            checksum=right.checksum,
            former_size=file.size,
            former_checksum=file.checksum,
            author=author,
        )
    for storage, path in lying.items():
        yield Replica(file=file.name, storage=storage, path=path)


def _right_at(
    runtime: Runtime,
    description: InputFile,
    file: File,
    places: Sequence[Storage],
    known_paths: Mapping[str, str],
    limit: float,
) -> dict[str, str] | None:
    """Return the storages where the bytes match the given description, with the file's path there.

    ``known_paths`` are its paths in the catalogue, by storage.

    Return an empty mapping if no bytes can be read, and None if they match the known description, or neither.
    """
    right: dict[str, str] = {}
    has_other_bytes = False
    for storage in places:
        seconds = limit - time.monotonic()
        try:
            path = known_paths.get(storage.name, "")
            finding = (
                look_at(runtime, storage, description.identifier, seconds, path) if seconds > 0 else None
            )
        except (StorageError, LookupError, OSError) as error:
            log.info("%s cannot be looked at on %s: %s", description.identifier, storage.name, error)
            if storage.name in known_paths:
                return {}
            continue
        if finding is None:
            continue
        if agrees(file.size, file.checksum, finding.file):
            return None
        if agrees(description.size, description.checksum, finding.file):
            right[storage.name] = finding.path
        else:
            has_other_bytes = True
    return right or (None if has_other_bytes else {})


@dataclass(frozen=True, slots=True)
class FileThere:
    """A file at a storage, and its path there; empty if that is its name."""

    file: InputFile
    path: str


def look_at(
    runtime: Runtime, storage: Storage, identifier: str, seconds: float, known_path: str = ""
) -> FileThere | None:
    """Return a file at a storage; None if it is not there.

    Look at its path in the catalogue, or else under its name, which may be a link inside of its folder.
    Raises StorageError, LookupError or OSError if the storage cannot be read.
    """
    name = split_identifier(identifier)[1]
    path = name if is_stored_here(known_path) else known_path or name
    files = runtime.deliveries.scan(storage, glob.escape(path), seconds, any_name=True)
    real = (files.paths if isinstance(files, ScannedFiles) else {}).get(path, path)
    if real != path:
        refuse_link(storage, path, real)
    return next((FileThere(file, "" if real == name else real) for file in files if file.name == path), None)


def agrees(size: int, checksum: str, file: InputFile) -> bool:
    """Return whether a description may fit a found file: checksums of two kinds cannot be compared."""
    kinds = {digest.partition(":")[0] for digest in (checksum, file.checksum)}
    comparable = checksum and file.checksum and len(kinds) == 1
    return size == file.size and (not comparable or checksum == file.checksum)
