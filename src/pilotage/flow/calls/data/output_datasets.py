"""Check datasets of outputs with their catalogues and the store before their tasks are accepted."""

from pilotage.flow.calls.data.inputs import Fault
from pilotage.flow.runtime import Runtime
from pilotage.model.records.federation import Federation
from pilotage.model.records.publications import is_own, split_dataset
from pilotage.model.records.work import TaskSpec
from pilotage.model.rules.sources import output_storages
from pilotage.ports.catalogue import CatalogueError
from pilotage.store import DatasetTaken


class OutputDatasets:
    """Checks the datasets of one submission. Each belongs to one task."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._named: set[str] = set()

    def faults(self, spec: TaskSpec, federation: Federation) -> list[Fault]:
        """Return why a task's outputs cannot be registered in its dataset."""
        wanted = spec.output_dataset
        if not wanted:
            return []
        task = self._runtime.store.publication_queries.task_of(wanted)
        if task is not None:
            return [("output_dataset", str(DatasetTaken(wanted, task)))]
        if wanted in self._named:
            told = f"{wanted} is the dataset of another task of this submission; name another one"
            return [("output_dataset", told)]
        try:
            if not is_own(wanted):
                catalogue, scope, name = split_dataset(wanted)
                known = self._runtime.catalogues.external(catalogue)
                known.check_output(scope, name, output_storages(spec, federation))
        except (CatalogueError, LookupError) as error:
            return [("output_dataset", str(error))]
        self._named.add(wanted)
        return []
