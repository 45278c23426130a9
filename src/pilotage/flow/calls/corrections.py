"""Resolve contradicting descriptions of a file: its bytes decide, or an operator.

A description is only its author's word. Others of the VO use the same names, so nobody's wrong description
may block a file: if two contradict each other, ask the storages. If no bytes can be seen there, authors may
correct their own description, until a job has started to read the file.
"""

import glob
import logging
import time
from collections.abc import Iterator, Sequence

from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Create, Creation, Decision
from pilotage.model.records.data import CorrectedFile
from pilotage.model.records.federation import Storage
from pilotage.model.records.work import File, InputFile, Replica
from pilotage.model.values.paths import is_copy
from pilotage.model.values.scopes import split_identifier
from pilotage.ports.moving import StorageError

log = logging.getLogger(__name__)

MOST_FILES = 20
"""Most files per request for which storages are asked."""

TIME_LIMIT = 30.0
"""Time limit in s for asking, per request."""


def correct(runtime: Runtime, given: Sequence[InputFile], actor: str, *, trusted: bool = False) -> int:
    """Correct known files that contradict the given descriptions, if the latter are right. Return their
    number.

    They are right if the bytes agree, at the storages where the file is known to lie, or else at the given
    ones. The known description wins if Pilotage moved the file under it. A ``trusted`` operator's description
    is right without this check. If no bytes can be seen, so is that of the unconfirmed description's author.
    """
    conflicts = runtime.store.queries.conflicts([_file(one) for one in given])
    agreeing = {one.identifier for at, one in enumerate(given) if at not in conflicts}
    limit = time.monotonic() + TIME_LIMIT
    records: list[Creation] = []
    corrected = 0
    for at in [*conflicts][:MOST_FILES]:
        # Who says both at once takes nothing back.
        author = "" if given[at].identifier in agreeing else actor
        found = [*_correction(runtime, given[at], author, limit, trusted=trusted)]
        corrected += bool(found)
        records += found
    if records:
        change = Create(records=tuple(records), cause="described as its bytes, or an operator, say")
        decision = Decision(step="register", time=runtime.clock(), seed=runtime.seeds(), changes=(change,))
        runtime.store.commit(decision, actor)
    return corrected


def _correction(
    runtime: Runtime, given: InputFile, author: str, limit: float, *, trusted: bool
) -> Iterator[Creation]:
    entry = runtime.store.catalogue.entry(given.identifier)
    if entry is None or entry.file.job is not None:
        return
    storages = {storage.name: storage for storage in runtime.store.federation().storages}
    if not trusted and any(is_copy(replica.path) for replica in entry.replicas):
        return  # it was moved, and so its bytes were found as they are known
    own = [replica.storage for replica in entry.replicas]
    places = [storages[name] for name in dict.fromkeys((*own, *given.replicas)) if name in storages]
    right = [] if trusted else _right_at(runtime, given, entry.file, places, own, limit)
    takes_back = (
        not trusted and right == [] and runtime.store.catalogue.author(given.identifier) == author != ""
    )
    if not (trusted or right or takes_back):
        return
    log.info("%s: %d bytes, and not %d as it was known", given.identifier, given.size, entry.file.size)
    yield CorrectedFile(
        name=given.identifier,
        size=given.size,
        checksum=given.checksum,
        former_size=entry.file.size,
        former_checksum=entry.file.checksum,
        author=author if takes_back else "",
    )
    lying = [*own, *given.replicas] if takes_back else right or ()
    paths = {replica.storage: replica.path for replica in entry.replicas}
    for name in dict.fromkeys(lying):
        yield Replica(file=given.identifier, storage=name, path=paths.get(name, ""))


def _right_at(
    runtime: Runtime,
    given: InputFile,
    known: File,
    places: Sequence[Storage],
    own: Sequence[str],
    limit: float,
) -> list[str] | None:
    """Return the storages whose bytes match the given description.

    It is empty if no bytes can be read, and None if they match the known description, or neither.
    """
    right: list[str] = []
    others = False
    for storage in places:
        left = limit - time.monotonic()
        try:
            found = seen(runtime, storage, given.identifier, left) if left > 0 else None
        except (StorageError, LookupError, OSError) as error:
            log.info("%s cannot be looked at on %s: %s", given.identifier, storage.name, error)
            if storage.name in own:
                return []
            continue
        if found is None:
            continue
        if agrees(known.size, known.checksum, found):
            return None
        if agrees(given.size, given.checksum, found):
            right.append(storage.name)
        else:
            others = True
    return right or (None if others else [])


def seen(runtime: Runtime, storage: Storage, identifier: str, seconds: float) -> InputFile | None:
    """Return the file at a storage under a file's name; None if there is none."""
    name = split_identifier(identifier)[1]
    found = runtime.deliveries.scan(storage, glob.escape(name), seconds, any_name=True)
    return next((one for one in found if one.name == name), None)


def agrees(size: int, checksum: str, found: InputFile) -> bool:
    """Return whether a description may fit a found file: checksums of two kinds cannot be compared."""
    kinds = {one.partition(":")[0] for one in (checksum, found.checksum)}
    comparable = checksum and found.checksum and len(kinds) == 1
    return size == found.size and (not comparable or checksum == found.checksum)


def _file(one: InputFile) -> File:
    return File(name=one.identifier, size=one.size, checksum=one.checksum)
