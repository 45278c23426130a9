"""The catalogue that Pilotage itself keeps in its store."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pilotage.model.documents.decision import Committed, Create, Decision, Forget
from pilotage.model.records.publications import author_of
from pilotage.model.records.work import File, InputFile, NewDatasetVersion, Replica
from pilotage.model.values.paths import is_copy, is_output
from pilotage.model.values.patterns import literal_beginning, matcher
from pilotage.model.values.scopes import identifier, name_of, version_of
from pilotage.ports import Clock, Seeds
from pilotage.ports.catalogue import MOST_FOUND, CatalogueError, FoundDataset, FoundFile
from pilotage.store import Store
from pilotage.store.files.datasets import DatasetVersion, Member

Edit = Literal["set", "add", "remove"]
"""How given files change a dataset: they replace its files, join them, or leave it."""

TRIES = 5
"""Most attempts to make a version if another person makes one at the same moment."""


class OwnCatalogue:
    """Finds files and datasets in the store, and makes versions of datasets."""

    def __init__(self, store: Store, clock: Clock, seeds: Seeds) -> None:
        self._store = store
        self._clock = clock
        self._seeds = seeds

    def matching(self, scope: str, glob: str) -> Sequence[FoundFile]:
        """See ``CataloguePort``.

        Only a pattern that begins in the outputs' folder finds outputs.
        """
        accepts = matcher(glob)

        def is_wanted(file: str) -> bool:
            name = name_of(file)
            return accepts(name) and (is_output(glob) or not is_output(name))

        prefix = identifier(scope, literal_beginning(glob))
        matches = self._store.catalogue.matching(prefix, is_wanted, "", MOST_FOUND + 1)
        if len(matches) > MOST_FOUND:
            raise LookupError(f"more than {MOST_FOUND} files match {glob!r}; narrow the pattern")
        return [_found_file(scope, match.file, _places(match.replicas)) for match in matches]

    def dataset(self, scope: str, name: str, version: int | None = None) -> FoundDataset:
        """See ``CataloguePort``."""
        dataset = identifier(scope, name)
        existing = self.version(dataset, version)
        members = self._store.datasets.members(dataset, existing.version)
        if lost := [member for member in members if not _is_there(member)]:
            raise LookupError(_not_whole(existing, lost))
        files = [
            _found_file(
                scope, member.file, {storage: member.paths.get(storage, "") for storage in member.storages}
            )
            for member in members
        ]
        return FoundDataset(version=existing.version, files=files)

    def knows(self, dataset: str) -> bool:
        """Return whether a dataset exists, by identifier."""
        return self._store.datasets.version(dataset) is not None

    def version(self, dataset: str, version: int | None = None) -> DatasetVersion:
        """Return a version of a dataset by identifier. Raises LookupError that names the existing ones."""
        if existing := self._store.datasets.version(dataset, version):
            return existing
        if newest := self._store.datasets.version(dataset):
            raise LookupError(f"{dataset} has no version {version}; its newest is {newest.version}")
        raise LookupError(f"the catalogue has no dataset {dataset}")

    def edit(self, dataset: str, files: Sequence[File], edit: Edit, author: str) -> DatasetVersion:
        """Make the next version of a dataset. If nothing would differ, the current one stays.

        Raises CatalogueError if it would be empty or too large, or while others make versions of it.
        """
        for _ in range(TRIES):
            current = self._store.datasets.version(dataset)
            before = self._store.datasets.files(dataset, current.version) if current else []
            number = self._store.datasets.last(dataset) + 1
            new = _next_version(dataset, number, before, _edited(before, files, edit), author)
            if new is None and current:
                return current
            if new and self._make(new, author):
                return self.version(dataset, new.version)
        raise CatalogueError(f"others make versions of {dataset} at the same time; try again")

    def gather(self, dataset: str, task: int) -> None:
        """Make the next version of a dataset from a task's outputs, or their merged form.

        The task is the version's author. If the current version has just these files it stays, so the call
        may be repeated. Raises LookupError if no version can be made, and CatalogueError.
        """
        files = self._store.publication_queries.results(task)
        if not files:
            raise LookupError(f"task {task} left no outputs")
        if len(files) > MOST_FOUND:
            raise LookupError(
                f"task {task} left {len(files)} outputs; a version has {MOST_FOUND} files at most"
            )
        self.edit(dataset, files, "set", author_of(task))

    def forget(self, dataset: str, author: str) -> None:
        """Forget a dataset with all its versions. Its files stay. Raises LookupError and CatalogueError."""
        self.version(dataset)
        self._commit(Forget(datasets=(dataset,)), author)
        # Check after the commit, which keeps a dataset that a just submitted task names.
        if self._store.datasets.version(dataset):
            self._refuse_read(dataset)

    def forgettable(self, dataset: str) -> DatasetVersion:
        """Return the newest version of a dataset that may be forgotten. Raises like ``forget``."""
        newest = self.version(dataset)
        if self._store.datasets.readers(dataset):
            self._refuse_read(dataset)
        return newest

    def _refuse_read(self, dataset: str) -> None:
        readers = ", ".join(map(str, self._store.datasets.readers(dataset)[:3]))
        raise CatalogueError(f"{dataset} is read by a task: {readers}; cancel that first, or wait")

    def _make(self, new: NewDatasetVersion, author: str) -> bool:
        ((created,),) = self._commit(Create(records=(new,), cause="version of a dataset"), author).created
        return created is not None

    def _commit(self, change: Create | Forget, author: str) -> Committed:
        decision = Decision(step="dataset", time=self._clock(), seed=self._seeds(), changes=(change,))
        return self._store.commit(decision, author)


def _places(replicas: Sequence[Replica]) -> Mapping[str, str]:
    """Return the paths of a file's originals by storage; a path is empty if it is the file's name."""
    return {replica.storage: replica.path for replica in replicas if not is_copy(replica.path)}


def _found_file(scope: str, file: File, places: Mapping[str, str]) -> FoundFile:
    return FoundFile(
        file=InputFile(
            name=name_of(file.name),
            scope=scope,
            size=file.size,
            checksum=file.checksum,
            replicas=tuple(places),
        ),
        paths={storage: path for storage, path in places.items() if path},
    )


def _is_there(member: Member) -> bool:
    """Return whether the catalogue still has a file as a version of a dataset has it."""
    file, current = member.file, member.current
    if current is None:
        return False
    is_same = current.checksum == file.checksum or not current.checksum or not file.checksum
    return current.size == file.size and is_same


def _not_whole(version: DatasetVersion, lost: Sequence[Member]) -> str:
    more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
    fault = "is not in the catalogue any more" if lost[0].current is None else "was changed since"
    name = version_of(version.dataset, version.version)
    return (
        f"{name} is not whole: {lost[0].file.name} {fault}{more}; register it as it was, or name another "
        "version"
    )


def _edited(before: Sequence[File], files: Sequence[File], edit: Edit) -> dict[str, File]:
    """Return the files of the next version by identifier."""
    named = {file.name: file for file in files}
    if edit == "remove":
        return {file.name: file for file in before if file.name not in named}
    return named if edit == "set" else {file.name: file for file in before} | named


def _next_version(
    dataset: str, number: int, before: Sequence[File], after: dict[str, File], author: str
) -> NewDatasetVersion | None:
    """Return the version with the differences; None if there are none. Raises CatalogueError."""
    if not after:
        raise CatalogueError(f"{dataset} would have no files; name some that the catalogue has")
    if len(after) > MOST_FOUND:
        raise CatalogueError(f"{dataset} would have {len(after)} files, more than {MOST_FOUND}; make several")
    had = {file.name: _as_member(file) for file in before}
    has = {name: _as_member(file) for name, file in after.items()}
    added = tuple(file for name, file in has.items() if had.get(name) != file)
    removed = tuple(name for name, file in had.items() if has.get(name) != file)
    if not (added or removed):
        return None
    return NewDatasetVersion(
        dataset=dataset,
        version=number,
        author=author,
        added=added,
        removed=removed,
        files=len(after),
        size=sum(file.size for file in after.values()),
    )


def _as_member(file: File) -> File:
    """Return what a dataset stores of a file."""
    return File(name=file.name, size=file.size, checksum=file.checksum)
