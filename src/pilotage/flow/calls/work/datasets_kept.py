"""Whether a task that has ended may go on, for the name of its output dataset."""

from pilotage.flow.errors import NotNow
from pilotage.flow.runtime import Runtime
from pilotage.model.records.work import Task
from pilotage.store import DatasetTaken


def refuse_taken_dataset(runtime: Runtime, task: Task) -> None:
    """Raise ``NotNow`` if another task has the name of the dataset that an ended one gave up."""
    if dataset := task.spec.output_dataset:
        owner = runtime.store.publication_queries.task_of(dataset, task.id)
        if owner is not None:
            raise NotNow(str(DatasetTaken(dataset, owner, f"task {task.id} gave it up when it ended")))
