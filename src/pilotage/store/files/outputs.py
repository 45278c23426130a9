"""The outputs of a task, each with its job and its storages."""

from collections import defaultdict
from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from pilotage.model.records.work import TaskSpec
from pilotage.model.rules.job_payload import parameters_of
from pilotage.model.values.scopes import name_of
from pilotage.store.database.keyset import ListPage, cut
from pilotage.store.database.rows import among
from pilotage.store.files.table import OutputView, ReplicaView, files
from pilotage.store.jobs.table import jobs
from pilotage.store.reader import RecordReader

_f, _j = files.c, jobs.c

_MANY = select(func.count()).where(_f.task == bindparam("task"), _f.job.is_not(None))

_MAKERS = select(_j.id, _j.kind, _j["index"].label("place")).where(among(_j.id, "ids"))


class OutputPage(NamedTuple):
    """A page of a task's outputs to read: the first ones after an identifier, by identifier."""

    after: str = ""
    limit: int = 10_000


FIRST_OUTPUTS = OutputPage()


def of_task(
    connection: Connection,
    reader: RecordReader,
    task: int,
    spec: TaskSpec | None,
    urls: Mapping[str, str],
    page: OutputPage,
) -> ListPage[OutputView]:
    """Return files that a task's jobs made, by name, and their storages, given these storages' URLs.

    With a ``spec``, each has its parameters.
    """
    read = reader.outputs_of_task(task, page.after, page.limit + 1)
    outputs, following = cut(read, page.limit, attrgetter("name"))
    total = connection.execute(_MANY, {"task": task}).scalar_one()
    ids = sorted({file.job for file in outputs if file.job is not None})
    makers = {row.id: row for row in connection.execute(_MAKERS, {"ids": ids})}
    lying: dict[str, list[ReplicaView]] = defaultdict(list)
    for replica in reader.replicas_of(outputs):
        lying[replica.file].append(ReplicaView.of(replica, urls))
    views = [
        OutputView(
            name=name_of(file.name),
            file=file.name,
            size=file.size,
            checksum=file.checksum,
            job=file.job,
            kind=makers[file.job].kind,
            index=makers[file.job].place,
            parameters=parameters_of(spec, makers[file.job].place) if spec else {},
            replicas=tuple(lying[file.name]),
        )
        for file in outputs
        if file.job is not None
    ]
    return ListPage(views, total, {}, following)
