"""Make versions of datasets from files in the catalogue, and check datasets of outputs."""

from collections.abc import Sequence

from pilotage.flow.calls.data.catalogue import refuse_beyond_quota
from pilotage.flow.calls.data.inputs import Fault
from pilotage.flow.outside.own_catalogue import Edit
from pilotage.flow.runtime import Runtime
from pilotage.model.records.federation import Federation
from pilotage.model.records.publications import is_own, split_dataset
from pilotage.model.records.work import File, TaskSpec
from pilotage.model.rules.sources import output_storages
from pilotage.model.values.patterns import matcher
from pilotage.model.values.scopes import identifier, name_of, split_identifier
from pilotage.ports.catalogue import CatalogueError
from pilotage.request_budget import asking
from pilotage.store import DatasetTaken
from pilotage.store.files.datasets import DatasetVersion


def edit(
    runtime: Runtime, dataset: str, names: Sequence[str], match: str, edit: Edit, actor: str
) -> DatasetVersion:
    """Make the next version of a dataset from files of its scope: named ones, and matching ones.

    If nothing would differ, the current version stays. Raises LookupError for files that the catalogue lacks,
    and CatalogueError.
    """
    if edit != "remove":
        refuse_beyond_quota(runtime, actor)
    scope = split_identifier(dataset)[0]
    catalogue = runtime.catalogues.own
    files = [identifier(scope, name) for name in names]
    if edit == "remove":
        # A pattern cannot find forgotten files, and removal does not need their size.
        members = [File(name=name, size=0, checksum="") for name in files]
        members += _matching_members(runtime, dataset, match) if match else []
    else:
        matching = [entry.file for entry in catalogue.matching(scope, match)] if match else []
        members = _catalogued_files(runtime, files)
        members += [File(name=file.identifier, size=file.size, checksum=file.checksum) for file in matching]
    return catalogue.edit(dataset, members, edit, actor)


def _matching_members(runtime: Runtime, dataset: str, match: str) -> list[File]:
    current, accepts = runtime.catalogues.own.version(dataset), matcher(match)
    members = runtime.store.datasets.files(dataset, current.version)
    return [file for file in asking(members) if accepts(name_of(file.name))]


def _catalogued_files(runtime: Runtime, names: Sequence[str]) -> list[File]:
    files = runtime.store.catalogue.files(names)
    if lacking := sorted(set(names) - {file.name for file in files}):
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise LookupError(f"the catalogue does not have {lacking[0]}{more}; register them first")
    return files


class OutputDatasets:
    """Checks the datasets of one submission. Each belongs to one task."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._named: set[str] = set()

    def faults(self, spec: TaskSpec, federation: Federation) -> list[Fault]:
        """Return why a task's outputs cannot be registered in its dataset."""
        dataset = spec.output_dataset
        if not dataset:
            return []
        task = self._runtime.store.publication_queries.task_of(dataset)
        if task is not None:
            return [("output_dataset", str(DatasetTaken(dataset, task)))]
        if dataset in self._named:
            reason = f"{dataset} is the dataset of another task of this submission; name another one"
            return [("output_dataset", reason)]
        try:
            if not is_own(dataset):
                catalogue, scope, name = split_dataset(dataset)
                external_catalogue = self._runtime.catalogues.external(catalogue)
                external_catalogue.check_output(scope, name, output_storages(spec, federation))
        except (CatalogueError, LookupError) as error:
            return [("output_dataset", str(error))]
        self._named.add(dataset)
        return []
