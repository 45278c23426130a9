"""Register files in the catalogue, and forget them."""

from collections.abc import Sequence

from pilotage.flow.runtime import Runtime
from pilotage.model.decision import Create, Creation, Decision, Forget
from pilotage.model.identity import Identity
from pilotage.model.paths import is_copy, is_output
from pilotage.model.patterns import literal_beginning, matcher
from pilotage.model.scopes import identifier, name_of, scopes_of
from pilotage.model.work import File, InputFile, InputPattern, Replica
from pilotage.store.catalogue import CatalogueEntry

MOST_FOUND = 100_000
"""Files of the catalogue that one pattern of a task may stand for."""


class StillWanted(Exception):
    """A file cannot be forgotten: a job or a task reads it, or a transfer moves it."""


def register(runtime: Runtime, found: Sequence[InputFile], actor: str) -> int:
    """Record files, which have scopes, and where they lie; returns how many were not known.

    Raises :class:`~pilotage.store.FileConflict` for one that is known to be otherwise; then none is recorded.
    """
    files = [File(name=file.identifier, size=file.size, checksum=file.checksum) for file in found]
    replicas = [Replica(file=file.identifier, storage=storage) for file in found for storage in file.replicas]
    records: tuple[Creation, ...] = (*files, *replicas)
    change = Create(records=records, cause="registered")
    decision = Decision(step="register", time=runtime.clock(), seed=runtime.seeds(), changes=(change,))
    ((*created,),) = runtime.store.commit(decision, actor).created
    return sum(id_ is not None for id_ in created[: len(files)])


def forget(runtime: Runtime, entry: CatalogueEntry, storage: str, actor: str) -> None:
    """Forget a file, or its replica at one storage; remove copies that Pilotage made.

    Originals stay where they lie: they are their owners'. Raises StillWanted.
    """
    if runtime.store.catalogue.wanted([entry.file.name]):
        raise StillWanted(f"{entry.file.name} is read by a task or moved; cancel that first, or wait")
    gone = tuple(replica for replica in entry.replicas if storage in ("", replica.storage))
    change = Forget(replicas=gone, files=() if storage else (entry.file.name,))
    decision = Decision(step="forget", time=runtime.clock(), seed=runtime.seeds(), changes=(change,))
    runtime.store.commit(decision, actor)
    storages = {one.name: one for one in runtime.store.federation().storages}
    for replica in gone:
        if is_copy(replica.path) and replica.storage in storages:
            runtime.deliveries.remove(storages[replica.storage], replica.path)


def matching(runtime: Runtime, pattern: InputPattern, owner: Identity) -> list[InputFile]:
    """Find the originals that the catalogue knows by a pattern in one scope; no storage is asked.

    Outputs are found only by a pattern that begins in their folder. Raises LookupError where the scope is not
    the owner's, and for more files than :data:`MOST_FOUND`.
    """
    if pattern.scope not in (mine := scopes_of(owner)):
        raise LookupError(f"the scope {pattern.scope!r} is not yours; yours are {', '.join(mine)}")
    accepts = matcher(pattern.glob)

    def is_wanted(file: str) -> bool:
        name = name_of(file)
        return accepts(name) and (is_output(pattern.glob) or not is_output(name))

    prefix = identifier(pattern.scope, literal_beginning(pattern.glob))
    found = runtime.store.catalogue.matching(prefix, is_wanted, "", MOST_FOUND + 1)
    if len(found) > MOST_FOUND:
        raise LookupError(f"more than {MOST_FOUND} files match {pattern.glob!r}; narrow the pattern")
    return [
        InputFile(
            name=name_of(one.file.name),
            scope=pattern.scope,
            size=one.file.size,
            checksum=one.file.checksum,
            replicas=tuple(replica.storage for replica in one.replicas if not replica.path),
        )
        for one in found
    ]
