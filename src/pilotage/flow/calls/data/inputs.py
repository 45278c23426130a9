"""Resolve the inputs of a task: files, patterns of files, and versions of datasets."""

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic

from pilotage.flow.calls.data import row_inputs
from pilotage.flow.outside.catalogues import ReadableCatalogue
from pilotage.flow.runtime import Runtime
from pilotage.model.records.catalogues import open_to
from pilotage.model.records.federation import Federation, Storage
from pilotage.model.records.inputs import TaskOutputs
from pilotage.model.records.work import InputDataset, InputFile, InputPattern, TaskSpec
from pilotage.model.rules.folders import may_list, not_yours, others_files, refuse_others
from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import is_output, makers
from pilotage.model.values.scopes import (
    default_scope,
    identifier,
    personal_scope,
    scopes_of,
    split_identifier,
    version_of,
)
from pilotage.ports.catalogue import CatalogueError, FoundFile
from pilotage.ports.moving import StorageError
from pilotage.request_budget import asking
from pilotage.store import Store

Fault = tuple[str, str]
Paths = Mapping[tuple[str, str], str]
"""Paths of files by identifier and storage, if they differ from the files' names."""

SCAN_TIME = 30.0
"""Time limit in s for resolving the patterns of one submission."""

NO_TIME = (
    f"no time is left of the {SCAN_TIME:g} s that a submission has for its patterns; narrow them, or name "
    "the files with their sizes"
)


class NothingFound(LookupError):
    """No file matches a pattern."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Look-ups of inputs for a person. ``scan`` finds files on a storage; None means no catalogue.

    Without an ``owner``, all files are visible. ``is_own_task`` returns whether a task, by number, is
    theirs, and ``is_late`` whether the time for look-ups is over.
    """

    scan: Callable[[Storage, str], list[InputFile]]
    catalogue: ReadableCatalogue | None = None
    owner: Identity | None = None
    is_own_task: Callable[[int], bool] = lambda _: False
    is_late: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Resolved:
    """A task with all its inputs resolved to files, and the versions of datasets that they come from."""

    spec: TaskSpec
    datasets: tuple[str, ...] = ()
    paths: Paths = field(default_factory=dict)


@dataclass(slots=True)
class _Findings:
    """The files of a task by name, as they are found. Replicas of one file are combined."""

    files: dict[str, InputFile] = field(default_factory=dict)
    datasets: list[str] = field(default_factory=list)
    paths: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, files: Iterable[FoundFile]) -> Iterator[str]:
        """Add files. Yield contradictions to earlier ones."""
        for found_file in asking(files):
            file = found_file.file
            earlier = self.files.get(file.name)
            if earlier and not _same(earlier, file):
                places = ", ".join((*earlier.replicas, *file.replicas))
                yield f"{file.name} is not the same everywhere: its copies at {places} differ"
                continue
            replicas = {*file.replicas, *(earlier.replicas if earlier else ())}
            checksum = file.checksum or (earlier.checksum if earlier else "")
            rows = file.rows
            if earlier:
                # A file without rows is for all rows, and stays so if some rows name it too.
                rows = tuple(sorted({*earlier.rows, *rows})) if earlier.rows and rows else ()
            self.files[file.name] = replace(
                file, checksum=checksum, replicas=tuple(sorted(replicas)), rows=rows
            )
            self.paths |= {(file.identifier, storage): path for storage, path in found_file.paths.items()}


def lookup_for(runtime: Runtime, owner: Identity) -> Lookup:
    """Return the look-ups for one submission, with ``SCAN_TIME`` s for all together."""
    # Not the runtime's clock: this limits how long a thread is busy, even in virtual time.
    end = monotonic() + SCAN_TIME

    def scan(storage: Storage, glob: str) -> list[InputFile]:
        with runtime.look_ups.place(storage.name, owner, max(0.0, end - monotonic())):
            seconds = end - monotonic()
            if seconds <= 0:
                raise TimeoutError(f"no time is left of the {SCAN_TIME:g} s that a submission has")
            return runtime.deliveries.scan(storage, glob, seconds)

    is_own_task = partial(is_task_of, runtime.store, owner)
    return Lookup(scan, runtime.catalogues.read_by(owner), owner, is_own_task, lambda: monotonic() > end)


def is_task_of(store: Store, owner: Identity, number: int) -> bool:
    """Return whether a task exists and belongs to a person."""
    task = store.queries.task(number)
    return task is not None and (task.owner, task.vo) == (owner.name, owner.vo)


def scoped(spec: TaskSpec, owner: Identity) -> TaskSpec:
    """Give inputs and the dataset of outputs their default scopes if the task leaves them out."""
    items = (
        item
        if isinstance(item, TaskOutputs) or item.scope
        else replace(item, scope=default_scope(owner, _name(item)))
        for item in spec.inputs
    )
    dataset = spec.output_dataset
    if dataset and not split_identifier(dataset)[0]:
        dataset = identifier(personal_scope(owner), dataset)
    return replace(spec, inputs=tuple(items), output_dataset=dataset)


def out_of_scope(spec: TaskSpec, federation: Federation, owner: Identity) -> list[Fault]:
    """Return a fault for each scope in the task that the owner may not read."""
    mine = scopes_of(owner)
    # Go backwards, so that the first item of each scope is named.
    scopes = [(item.scope, at) for at, item in enumerate(spec.inputs) if not isinstance(item, TaskOutputs)]
    foreign = {scope: at for scope, at in reversed(scopes) if scope not in mine}
    foreign = {scope: at for scope, at in foreign.items() if not open_to(federation.catalogues, scope, owner)}
    return [
        (f"inputs[{at}].scope", f"{scope!r} is not yours; give one of {', '.join(mine)}, or leave it out")
        for scope, at in sorted(foreign.items())
    ]


def resolve(spec: TaskSpec, federation: Federation, lookup: Lookup) -> tuple[Resolved, list[Fault]]:
    """Replace patterns and datasets by their files, each with all storages that hold it.

    Outputs of other tasks stay as they are until these have ended.
    """
    if faults := [*_template_faults(spec)]:
        return Resolved(spec), faults
    # Before any look-up: files in others' folders are not even listed.
    if foreign := [*not_nameable(spec, federation, lookup)]:
        return Resolved(spec), foreign
    if all(isinstance(item, TaskOutputs) or _names_storages(item) for item in spec.inputs):
        return Resolved(row_inputs.by_row(spec)), []
    storages = {storage.name: storage for storage in federation.storages}
    findings = _Findings()
    later = [item for item in spec.inputs if isinstance(item, TaskOutputs)]
    for index, item in enumerate(spec.inputs):
        if isinstance(item, TaskOutputs):
            continue
        try:
            if isinstance(item, InputPattern) and row_inputs.is_template(spec, item):
                files = _of_rows(spec, item, storages, lookup)
            else:
                files = _find_files(item, storages, lookup, findings.datasets)
        except (LookupError, StorageError, CatalogueError, OSError) as error:
            faults.append((f"inputs[{index}]", str(error)))
            continue
        faults.extend((f"inputs[{index}]", fault) for fault in findings.add(files))
    inputs = (findings.files[name] for name in sorted(findings.files))
    resolved = row_inputs.by_row(replace(spec, inputs=(*inputs, *later)))
    return Resolved(resolved, tuple(sorted(set(findings.datasets))), findings.paths), faults


def _names_storages(item: object) -> bool:
    return isinstance(item, InputFile) and bool(item.replicas)


def not_nameable(spec: TaskSpec, federation: Federation, lookup: Lookup) -> Iterator[Fault]:
    """Yield faults of files and patterns at paths that the owner of the look-ups may not name."""
    if (owner := lookup.owner) is None:
        return
    storages = {storage.name: storage for storage in federation.storages}
    for index, item in enumerate(asking(spec.inputs)):
        # The patterns of many rows take long to compare, too.
        if isinstance(item, InputPattern) and lookup.is_late():
            yield f"inputs[{index}]", NO_TIME
            return
        if isinstance(item, InputFile):
            for _, reason in others_files([item], federation.storages, owner):
                yield f"inputs[{index}].name", reason
        elif isinstance(item, InputPattern):
            each = row_inputs.patterns(spec, item) if row_inputs.is_template(spec, item) else [item]
            reasons = (
                _not_to_list(pattern, federation, storages, owner, lookup.is_own_task) for pattern in each
            )
            if reason := next(filter(None, reasons), ""):
                yield f"inputs[{index}].glob", reason


def _not_to_list(
    item: InputPattern,
    federation: Federation,
    storages: Mapping[str, Storage],
    owner: Identity,
    is_own_task: Callable[[int], bool],
) -> str:
    """Return why an owner may not list the files of a pattern; empty if they may."""
    if item.storages and is_output(item.glob):
        task = makers(federation.name, item.glob)
        if task is None or not is_own_task(task):
            begin = f"it must begin with tasks/{federation.name}/NUMBER/, of a task of yours"
            return f"{item.glob!r} stands for outputs: {begin}"
    for name in item.storages:
        if name in storages and not may_list(storages[name], item.glob, owner):
            return not_yours(storages[name], item.glob, owner)
    return ""


def _template_faults(spec: TaskSpec) -> Iterator[Fault]:
    for index, item in enumerate(spec.inputs):
        if (
            isinstance(item, InputPattern)
            and row_inputs.is_template(spec, item)
            and (fault := row_inputs.template_fault(spec, item))
        ):
            yield f"inputs[{index}].glob", fault


def _of_rows(
    spec: TaskSpec, item: InputPattern, storages: Mapping[str, Storage], lookup: Lookup
) -> Sequence[FoundFile]:
    """Return the files of a pattern that names parameters. Raises the errors that ``resolve`` catches."""

    def find(pattern: InputPattern) -> Sequence[FoundFile]:
        try:
            return _find_files(pattern, storages, lookup, [])
        except NothingFound:
            return ()

    def is_listed(pattern: InputPattern) -> bool:
        if lookup.owner is None:
            return True
        places = (storages[name] for name in pattern.storages if name in storages)
        return not is_output(pattern.glob) and all(
            may_list(storage, pattern.glob, lookup.owner) for storage in places
        )

    return row_inputs.files_of_rows(spec, item, find, is_listed)


def _name(item: InputFile | InputPattern | InputDataset) -> str:
    if isinstance(item, InputDataset):
        return item.dataset
    return item.name if isinstance(item, InputFile) else item.glob


def _find_files(
    item: InputFile | InputPattern | InputDataset,
    storages: Mapping[str, Storage],
    lookup: Lookup,
    datasets: list[str],
) -> Sequence[FoundFile]:
    """Return the files of an input, and record the version of a dataset.

    Raises the errors that ``resolve`` catches.
    """
    if isinstance(item, InputFile) and (item.replicas or lookup.catalogue is None):
        return [FoundFile(file=item)]
    if lookup.is_late():
        raise LookupError(NO_TIME)
    if isinstance(item, InputFile):
        return [_in_catalogue(item, lookup)]
    if isinstance(item, InputPattern) and item.storages:
        return _on_storages(item, storages, lookup)
    if lookup.catalogue is None:
        raise LookupError("there is no catalogue here to look in; name the storages")
    if isinstance(item, InputDataset):
        dataset = lookup.catalogue.dataset(item.scope, item.dataset, item.version)
        datasets.append(version_of(identifier(item.scope, item.dataset), dataset.version))
        return dataset.files
    if files := lookup.catalogue.matching(item.scope, item.glob):
        return files
    raise NothingFound(f"no file matches {item.glob!r} in the scope {item.scope}")


def _in_catalogue(item: InputFile, lookup: Lookup) -> FoundFile:
    """Return a file without storages with those that the catalogue knows, if it has the same bytes there."""
    for one in lookup.catalogue.matching(item.scope, glob.escape(item.name)) if lookup.catalogue else ():
        if one.file.name == item.name and _same(one.file, item):
            return replace(one, file=replace(one.file, rows=item.rows))
    return FoundFile(file=item)


def _on_storages(
    pattern: InputPattern, storages: Mapping[str, Storage], lookup: Lookup
) -> Sequence[FoundFile]:
    """Scan the storages of a pattern. Raises LookupError for an unknown storage, or if nothing is found."""
    matching_files: list[FoundFile] = []
    for name in pattern.storages:
        if name not in storages:
            raise LookupError(f"there is no storage {name!r}; known are {', '.join(sorted(storages))}")
        try:
            files = lookup.scan(storages[name], pattern.glob)
        except TimeoutError as error:
            raise StorageError(
                f"looking for {pattern.glob!r} on {name} took too long: {error}; narrow the pattern, or name "
                "the files with their sizes"
            ) from error
        paths = getattr(files, "paths", {})
        refuse_others(files, storages[name], lookup.owner, paths)
        for file in files:
            at = {name: paths[file.name]} if file.name in paths else {}
            matching_files.append(FoundFile(file=replace(file, scope=pattern.scope), paths=at))
    if not matching_files:
        raise NothingFound(f"no file matches {pattern.glob!r} on {', '.join(pattern.storages)}")
    return matching_files


def _same(first: InputFile, second: InputFile) -> bool:
    """Return whether two files may be copies: the checksum of a large found file is not read."""
    same_checksum = first.checksum == second.checksum or not first.checksum or not second.checksum
    return first.size == second.size and same_checksum
