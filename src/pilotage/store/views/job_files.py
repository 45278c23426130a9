"""The files of one job: its inputs and outputs, their storages, and their last transfers."""

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, or_, select

from pilotage.model.records.job_files import FileKind, FileOfJob
from pilotage.model.records.work import Transfer
from pilotage.store.database.rows import among
from pilotage.store.tables import transfers as transfer_rows
from pilotage.store.tables.files import files, replicas
from pilotage.store.tables.jobs import job_inputs
from pilotage.store.tables.transfers import TRANSFER_COLUMNS, transfers

MOST_FILES = 50
"""Most inputs, and outputs, of a job that are shown."""

_Moved = tuple[Transfer | None, float | None]
"""A transfer, and the duration of its delivery in s."""

NEVER: _Moved = (None, None)

_f, _x = files.c, transfers.c
_INPUTS = (
    select(_f.name, _f.size)
    .join(job_inputs, job_inputs.c.file == _f.name)
    .where(job_inputs.c.job == bindparam("job"))
    .order_by(job_inputs.c.position)
    .limit(MOST_FILES)
)
# Sort here: a job has at most a thousand, and no index has them by name.
_OUTPUTS = select(_f.name, _f.size).where(_f.job == bindparam("job"), _f.job.is_not(None))
_HOLDERS = select(replicas.c.file, replicas.c.storage).where(among(replicas.c.file, "names"))
_TRANSFERS = (
    select(*TRANSFER_COLUMNS, _x.started, _x.ended)
    .where(
        among(_x.file, "names"),
        or_(_x.direction == "upload", _x.destination == bindparam("home")),
    )
    .order_by(_x.id)
)


def of_job(connection: Connection, job: int, home: str) -> list[FileOfJob]:
    """Return the first inputs and outputs of a job at a queue whose storage is ``home``."""
    found: list[tuple[FileKind, str, int]] = []
    found += [("input", file, size) for file, size in connection.execute(_INPUTS, {"job": job})]
    made = sorted(connection.execute(_OUTPUTS, {"job": job}).all())[:MOST_FILES]
    found += [("output", file, size) for file, size in made]
    names = [file for _, file, _ in found]
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for file, storage in connection.execute(_HOLDERS, {"names": names}):
        holders[file].append(storage)
    moved = _moved(connection, names, home)
    return [
        FileOfJob(
            file=file,
            kind=kind,
            size=size,
            storages=tuple(sorted(holders[file])),
            transfer=moved.get((kind, file), NEVER)[0],
            took=moved.get((kind, file), NEVER)[1],
        )
        for kind, file, size in found
    ]


def _moved(connection: Connection, names: list[str], home: str) -> Mapping[tuple[str, str], _Moved]:
    """Return the last transfer of each input to ``home``, and of each output to its final storage."""
    found: dict[tuple[str, str], _Moved] = {}
    for row in connection.execute(_TRANSFERS, {"names": names, "home": home}):
        started, ended = row[-2:]
        moved = transfer_rows.transfer(row), None if started is None or ended is None else ended - started
        if row.direction == "upload":
            found["output", row.file] = moved
        if row.destination == home:
            found["input", row.file] = moved
    return found
