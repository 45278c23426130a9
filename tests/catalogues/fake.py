"""A catalogue in memory, for tests without a server of Rucio: it keeps what the port promises."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pilotage.model.records.catalogues import ReplicationRule
from pilotage.model.records.work import InputFile
from pilotage.model.values.patterns import matcher
from pilotage.ports.catalogue import CatalogueError, FoundDataset, FoundFile, OutputFile


@dataclass
class Gathered:
    """A dataset: names of its files, its rules, and whether it is closed."""

    files: set[str] = field(default_factory=set)
    rules: set[ReplicationRule] = field(default_factory=set)
    closed: bool = False


class FakeCatalogue:
    """Files and datasets by scope. With ``error`` it does not answer; ``calls`` counts what was published."""

    def __init__(self, storages: Collection[str], scopes: Collection[str]) -> None:
        self._storages, self._scopes = storages, scopes
        self.files: defaultdict[str, dict[str, FoundFile]] = defaultdict(dict)
        self.datasets: defaultdict[str, dict[str, Gathered]] = defaultdict(dict)
        self.error = ""
        self.calls: list[int] = []

    def matching(self, scope: str, glob: str) -> Sequence[FoundFile]:
        accepts = matcher(glob)
        return [found for name, found in sorted(self.files[scope].items()) if accepts(name)]

    def dataset(self, scope: str, name: str, version: int | None = None) -> FoundDataset:
        if version is not None:
            raise LookupError("datasets have no version here")
        found = self.datasets[scope].get(name)
        if found is None or not found.closed:
            raise LookupError(f"there is no dataset {scope}:{name} that is closed")
        return FoundDataset(version=None, files=[self.files[scope][file] for file in sorted(found.files)])

    def check_output(self, scope: str, dataset: str, storages: Sequence[str]) -> None:
        self._answer()
        if scope not in self._scopes:
            raise LookupError(f"there is no scope {scope}")
        if (known := self.datasets[scope].get(dataset)) and known.closed:
            raise LookupError(f"{scope}:{dataset} is closed")
        if lacking := set(storages) - set(self._storages):
            raise LookupError(f"there is no storage {', '.join(sorted(lacking))}")

    def publish(
        self,
        scope: str,
        dataset: str,
        files: Sequence[OutputFile],
        rule: ReplicationRule | None,
        closed: bool = False,
    ) -> Mapping[str, str]:
        self._answer()
        self.calls.append(len(files))
        gathered = self.datasets[scope].setdefault(dataset, Gathered())
        refused = {one.name: fault for one in files if (fault := self._fault(scope, one))}
        names = {one.name for one in files} - refused.keys()
        if gathered.closed and not names <= gathered.files:
            raise LookupError(f"{scope}:{dataset} is closed")
        for one in files:
            if one.name in names:
                self.files[scope][one.name] = _found(scope, one)
        gathered.files |= names
        gathered.rules |= {rule} if rule else set()
        gathered.closed |= closed
        return refused

    def _fault(self, scope: str, file: OutputFile) -> str:
        known = self.files[scope].get(file.name)
        same = known is None or (known.file.size, known.file.checksum) == (file.size, file.checksum)
        return "" if same else f"another file is known under {scope}:{file.name}"

    def _answer(self) -> None:
        if self.error:
            raise CatalogueError(self.error)


def _found(scope: str, file: OutputFile) -> FoundFile:
    known = InputFile(
        name=file.name,
        scope=scope,
        size=file.size,
        checksum=file.checksum,
        replicas=tuple(sorted(file.paths)),
    )
    return FoundFile(file=known, paths=dict(file.paths))
