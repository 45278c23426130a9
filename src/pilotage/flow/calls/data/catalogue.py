"""Register files in the catalogue, and forget them."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from pilotage.flow.errors import NotNow
from pilotage.flow.outside.removals import remove_copies
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Create, Creation, Decision, Forget
from pilotage.model.records.work import File, InputFile, Replica
from pilotage.store import FileConflict
from pilotage.store.files.catalogue import CatalogueEntry

NO_PATHS: Mapping[str, str] = MappingProxyType({})


class StillWanted(Exception):
    """A file cannot be forgotten: a job or a task reads it, or a transfer moves it."""


def refuse_beyond_quota(runtime: Runtime, actor: str) -> None:
    """Raise NotNow if a person has registered the most files and members of datasets that are allowed."""
    quota = runtime.store.federation().quotas.registered_by_user
    if (have := runtime.store.registered_by(actor)) >= quota:
        raise NotNow(
            f"you have registered {have} files and members of datasets, and {quota} are the most "
            "(quotas.registered_by_user); forget some with `pilotage files forget`, or ask an operator"
        )


def register(
    runtime: Runtime,
    inputs: Sequence[InputFile],
    actor: str,
    dry_run: bool = False,
    paths: Mapping[str, str] = NO_PATHS,
) -> int:
    """Record files, which have scopes, and their storages. Return how many were new.

    ``paths`` has the paths of files that differ from their names, by name. With ``dry_run`` record nothing.
    Raises ``FileConflict`` for a file that contradicts a known one. Then none is recorded.
    """
    files = _files(inputs)
    refuse_beyond_quota(runtime, actor)
    if dry_run:
        runtime.store.queries.refuse_conflicts(files)
        names = {file.name for file in files}
        return len(names) - len(runtime.store.catalogue.files(sorted(names)))
    replicas = [
        Replica(file=file.identifier, storage=storage, path=paths.get(file.name, ""))
        for file in inputs
        for storage in file.replicas
    ]
    records: tuple[Creation, ...] = (*files, *replicas)
    change = Create(records=records, cause="registered")
    decision = Decision(step="register", time=runtime.clock(), seed=runtime.seeds(), changes=(change,))
    ((*created,),) = runtime.store.commit(decision, actor).created
    return sum(id_ is not None for id_ in created[: len(files)])


def register_each(
    runtime: Runtime,
    inputs: Mapping[int, InputFile],
    actor: str,
    dry_run: bool = False,
    paths: Mapping[str, str] = NO_PATHS,
) -> tuple[int, dict[int, str]]:
    """Record the files without a contradiction, each by its index among all given ones.

    Return how many were new, and by index why the others were refused.
    """
    places = list(inputs)
    conflicts = runtime.store.queries.conflicts(_files(inputs.values()))
    refused = {places[at]: str(conflict) for at, conflict in conflicts.items()}
    while remaining := {at: file for at, file in inputs.items() if at not in refused}:
        try:
            return register(runtime, list(remaining.values()), actor, dry_run, paths), refused
        except FileConflict as conflict:
            # Another person has registered it since.
            refused |= {
                at: str(conflict) for at, file in remaining.items() if file.identifier == conflict.file
            }
    return 0, refused


def _files(inputs: Iterable[InputFile]) -> list[File]:
    return [File(name=file.identifier, size=file.size, checksum=file.checksum) for file in inputs]


def to_forget(runtime: Runtime, entry: CatalogueEntry, storage: str) -> tuple[Replica, ...]:
    """Return the replicas that go with a file, or the one at one storage. Raises StillWanted."""
    if runtime.store.catalogue.in_use([entry.file.name]):
        raise StillWanted(f"{entry.file.name} is read by a task or moved; cancel that first, or wait")
    return tuple(replica for replica in entry.replicas if storage in ("", replica.storage))


def forget(runtime: Runtime, entry: CatalogueEntry, storage: str, actor: str) -> None:
    """Forget a file, or its replica at one storage; remove copies that Pilotage made.

    Originals stay, because they belong to their owners. Raises StillWanted.
    """
    now = runtime.clock()
    gone = to_forget(runtime, entry, storage)
    change = Forget(replicas=gone, files=() if storage else (entry.file.name,), if_unwanted=True)
    decision = Decision(step="forget", time=now, seed=runtime.seeds(), changes=(change,))
    runtime.store.commit(decision, actor)
    remainder = runtime.store.catalogue.entry(entry.file.name)
    if remainder and set(remainder.replicas) & set(gone):
        raise StillWanted(
            f"{entry.file.name} is read by a task that came a moment ago; cancel that first, or wait"
        )
    remove_copies(runtime, gone, now)
