"""The outputs of a task, with the job that made each, and where each lies."""

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, select

from pilotage.model.records.work import TaskSpec
from pilotage.model.rules.job_payload import parameters_of
from pilotage.model.values.scopes import name_of
from pilotage.store.tables.files import OutputView, ReplicaView
from pilotage.store.tables.jobs import jobs
from pilotage.store.tables.reader import RecordReader

_j = jobs.c


def of_task(
    connection: Connection, reader: RecordReader, task: int, spec: TaskSpec | None, urls: Mapping[str, str]
) -> list[OutputView]:
    """Return the files that a task's jobs made, by name, and their storages, given these storages' URLs.

    With a ``spec``, each has its parameters.
    """
    made = [file for file in reader.files_of_tasks([task]) if file.job is not None]
    makers = {
        row.id: row for row in connection.execute(select(_j.id, _j.kind, _j.job_index).where(_j.task == task))
    }
    lying: dict[str, list[ReplicaView]] = defaultdict(list)
    for replica in reader.replicas_of(made):
        lying[replica.file].append(ReplicaView.of(replica, urls))
    return [
        OutputView(
            name=name_of(file.name),
            file=file.name,
            size=file.size,
            checksum=file.checksum,
            job=file.job,
            kind=makers[file.job].kind,
            index=makers[file.job].job_index,
            parameters=parameters_of(spec, makers[file.job].job_index) if spec else {},
            replicas=tuple(lying[file.name]),
        )
        for file in made
        if file.job is not None
    ]
