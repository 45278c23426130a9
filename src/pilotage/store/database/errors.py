"""Refusals of the store. The message names the fault, its place, and the remedy."""

from pilotage.model.records.publications import is_own, split_dataset
from pilotage.model.records.states import TRANSITIONS, Kind, State


class StoreError(Exception):
    """A request to the store is impossible."""


class IllegalTransition(StoreError):
    """A move is not in the table of transitions. Nothing of its decision was written."""

    def __init__(self, kind: Kind, source: State, target: State) -> None:
        allowed = sorted(t for k, s, t in TRANSITIONS if k == kind and s == source)
        right = f"from there it can become {', '.join(allowed)}" if allowed else "that is its end"
        super().__init__(f"a {kind} that is {source} cannot become {target}: {right}")


class IllegalColumn(StoreError):
    """A decision changes a column that is fixed or that only the store may set."""

    def __init__(self, kind: Kind, columns: set[str], allowed: frozenset[str]) -> None:
        names = ", ".join(sorted(columns))
        super().__init__(f"a {kind}'s {names} cannot be changed here, only {', '.join(sorted(allowed))}")


class TooBroad(StoreError, LookupError):
    """A pattern's prefix matches more names than one request may compare."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} names begin like the pattern: give more of its beginning")


class FileConflict(StoreError):
    """A file with this name is known with another size or checksum."""

    def __init__(self, file: str, stored: tuple[int, str], new: tuple[int, str]) -> None:
        def text(size: int, checksum: str) -> str:
            return f"{size} bytes, {checksum or 'no checksum'}"

        super().__init__(
            f"{file} is known with {text(*stored)}, and was given with {text(*new)}; "
            f"if the file was changed, `pilotage files forget {file}` and give it again"
        )
        self.file = file


class StagesChanged(StoreError):
    """A task that was to stand for a stage of a resumed workflow is gone."""

    def __init__(self) -> None:
        super().__init__("tasks of the earlier workflow were deleted meanwhile; submit it again")


class DatasetTaken(StoreError):
    """A dataset gathers the outputs of another task already."""

    def __init__(self, dataset: str, task: int, remedy: str = "") -> None:
        super().__init__(f"{dataset} is the dataset of task {task}; {remedy or _another(dataset)}")
        self.dataset = dataset


def _another(dataset: str) -> str:
    """Return the remedy for a dataset that another task has."""
    if is_own(dataset):
        return "wait for its end or cancel it, or name another one"
    name = split_dataset(dataset)[2]
    return (
        f"its catalogue keeps no versions, so each task needs a name of its own, like {dataset}.2; or leave "
        f"the catalogue out: {name} is in your own scope, and gets a new version from each task"
    )


class PersonClosed(StoreError):
    """An operator has closed the owner of a task."""

    def __init__(self, owner: str, vo: str) -> None:
        of_vo = f" of VO {vo}" if vo else ""
        super().__init__(f"{owner}{of_vo} was closed; a new token lets them work again")


class NameTaken(StoreError):
    """A name from a token of a provider belongs to somebody else."""

    def __init__(self, owner: str, vo: str) -> None:
        of_vo = f" of VO {vo}" if vo else ""
        super().__init__(
            f"the name {owner}{of_vo} belongs to somebody else here; an operator can let a rule give you "
            "another one"
        )


class NoFederation(StoreError):
    """No federation has been saved in this store yet."""

    def __init__(self) -> None:
        super().__init__(
            "the store has no federation yet: on the server's machine, `pilotage init` writes one, and "
            "`pilotage federation load FILE` puts it in force"
        )


class UnreadableTask(StoreError):
    """The stored specification of a task cannot be read."""

    def __init__(self, task: int) -> None:
        super().__init__(
            f"the stored specification of task {task} cannot be read by this version of Pilotage; "
            "the server's log has the reason, and the list of tasks still has its state and its jobs"
        )


class ArchivedElsewhere(StoreError):
    """Another process is archiving this store: both would write the same records to two files."""

    def __init__(self) -> None:
        super().__init__("another process archives this store now: try again when it has ended")


class LeaseLost(StoreError):
    """Another server has taken over some work."""

    def __init__(self, work: str) -> None:
        super().__init__(f"another server has taken over: {work}")


class FederationRenamed(StoreError):
    """The store belongs to a federation with another name. The name is part of file paths at storages."""

    def __init__(self, stored: str, new: str) -> None:
        problem = f"this store belongs to federation {stored!r}, and its outputs' paths have this name"
        super().__init__(f"{problem}: keep the name, or give {new!r} a store of its own")


class FederationChanged(StoreError):
    """A change was made for a version of the federation that has been replaced."""

    def __init__(self, expected: int, version: int) -> None:
        super().__init__(
            f"version {version} of the federation is in force, not {expected}: look at what changed, "
            "and make your change again"
        )


class BadCursor(StoreError):
    """The cursor of a page is not a position in this list."""

    def __init__(self, cursor: str) -> None:
        super().__init__(
            f"{cursor[:60]!r} is no position in this list as it is sorted: give the `next` of the page before"
        )


class NewerStore(StoreError):
    """A newer version of the program wrote the store."""


class UnreleasedStore(StoreError):
    """The store was written by a version of the program that was never released."""

    def __init__(self, version: str) -> None:
        super().__init__(
            f"the store has schema {version}, which no release has: write ended work to a file with "
            "`pilotage history archive` of the version that made it, and start this version on a new store"
        )


class SessionsShared(StoreError):
    """A pooler gives the database's sessions to other clients after each transaction."""

    def __init__(self) -> None:
        super().__init__(
            "a connection pooler gives the database's sessions to others after each transaction, so settings "
            "and prepared statements of one reach the other: set pool_mode = session there, or give "
            "PILOTAGE_STORE the database's own address"
        )


class NotUnicode(StoreError):
    """A database of PostgreSQL has no Unicode text."""

    def __init__(self, database: str, encoding: str) -> None:
        super().__init__(
            f"the database {database} has the encoding {encoding}: make another one, by "
            "createdb --template template0 --encoding UTF8 NAME, and give PILOTAGE_STORE its name"
        )


class NoticesLost(StoreError):
    """The connection for other processes' notices was lost, or could not be opened."""


class StoreHeld(TimeoutError):
    """Another process holds the lock on the store's file, and does not release it."""

    def __init__(self, holder: str, waited: float) -> None:
        super().__init__(f"the store's file has been held for {waited:.0f} s by {holder}")


class DiskFailed(OSError):
    """Commits could not be written to the disk. A power failure would undo them."""

    def __init__(self, fault: str) -> None:
        super().__init__(
            f"the last commits could not be written to the disk: {fault}; mend it, and start the server again"
        )
