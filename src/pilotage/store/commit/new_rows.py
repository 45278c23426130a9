"""The database rows of new records."""

from collections.abc import Iterator, Sequence
from typing import Any

from pilotage.model.documents.serialization import given_json
from pilotage.model.records.notifications import NewNotification, armed
from pilotage.model.records.publications import NewPublication, split_dataset
from pilotage.model.records.work import NewJob, NewPilot, NewTask, NewTransfer
from pilotage.model.values.identity import Identity
from pilotage.model.values.slot_parts import SizeClass
from pilotage.store.database.record_columns import row_maker
from pilotage.store.tasks.table import labels_text


def owner_row(owner: Identity) -> dict[str, str]:
    """Return the columns of an owner."""
    return {"owner": owner.name, "vo": owner.vo, "group": owner.group, "vo_role": owner.vo_role}


def task_row(task: NewTask) -> dict[str, Any]:
    """Return the row of a task, without its workflow."""
    spec = task.spec
    return {
        "name": spec.name,
        "share": spec.share,
        "priority": spec.priority,
        "spec": given_json(spec).decode(),
        "submission": task.submission or None,
        "lease_end": task.lease_end,
        "datasets": " ".join(task.datasets),
        "planned_jobs": spec.planned_jobs,
        "input_files": len(spec.inputs),
        "output_dataset": spec.output_dataset or None,
        "labels": labels_text(spec.labels),
        "notices": armed(spec.notify),
        "on_end": spec.on == "end",
        **owner_row(task.owner),
    }


def links(id_: int, task: NewTask, created: Sequence[int | None]) -> Iterator[tuple[int, str, int]]:
    """Yield the tasks that a new task comes after, as rows of ``predecessors``."""
    for reference, number in task.predecessors.items():
        yield id_, reference, number
    for reference, place in task.new_predecessors.items():
        if (predecessor := created[place]) is not None:
            yield id_, reference, predecessor


def rows_of(type_: type, records: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rows of records of one type."""
    return [_ROWS[type_](record) for record in records]


_new_job = row_maker(NewJob)


def job_row(job: NewJob) -> dict[str, Any]:
    """Return the row of a job."""
    return _new_job(job) | {"queue": "", "input_count": len(job.inputs)}


_new_transfer = row_maker(NewTransfer)


def transfer_row(transfer: NewTransfer, size_class: SizeClass) -> dict[str, Any]:
    """Return the row of a transfer."""
    return _new_transfer(transfer) | {"size_class": size_class}


_new_publication = row_maker(NewPublication)


def _publication_row(publication: NewPublication) -> dict[str, Any]:
    catalogue = split_dataset(publication.dataset)[0]
    return _new_publication(publication) | {"catalogue": catalogue, "wake_at": publication.asked}


_ROWS: dict[type, Any] = {
    NewTask: task_row,
    NewJob: job_row,
    NewPilot: row_maker(NewPilot),
    NewPublication: _publication_row,
    NewNotification: row_maker(NewNotification),
}
