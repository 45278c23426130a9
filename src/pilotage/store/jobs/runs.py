"""The last attempts of a task's jobs, with their places and files."""

from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, bindparam, select

from pilotage.model.records.data import File
from pilotage.model.records.runs import JobRun
from pilotage.store.database.rows import among
from pilotage.store.jobs.table import JOB_STATES, job_inputs, jobs
from pilotage.store.pilots.table import pilots
from pilotage.store.reader import RecordReader

_j, _p = jobs.c, pilots.c

PAGE = 2000
"""Jobs of one page."""

_PAGE = (
    select(
        *(_j.id, _j.kind, _j["index"], _j.state, _j.error, _j.attempt, _j.queue),
        *(_p.node, _p.agent_version, _j.started, _j.ended, _j.exit_code),
    )
    .outerjoin(pilots, _p.id == _j.pilot)
    .where(_j.task == bindparam("task"), _j.id > bindparam("after"))
    .order_by(_j.id)
    .limit(bindparam("limit", type_=None))
)
_INPUTS = (
    select(job_inputs.c.job, job_inputs.c.file)
    .where(among(job_inputs.c.job, "ids"))
    .order_by(job_inputs.c.job, job_inputs.c.position)
)


def page_of(connection: Connection, reader: RecordReader, task: int, after: int) -> list[JobRun]:
    """Return up to ``PAGE`` runs of a task's jobs with a number above ``after``, by number."""
    rows = connection.execute(_PAGE, {"task": task, "after": after, "limit": PAGE}).all()
    ids = [row.id for row in rows]
    inputs: dict[int, list[str]] = defaultdict(list)
    for job, file in connection.execute(_INPUTS, {"ids": ids}) if ids else ():
        inputs[job].append(file)
    outputs: dict[int, list[File]] = defaultdict(list)
    for file in reader.outputs_of(ids):
        outputs[file.job or 0].append(file)
    return [_run(row, tuple(inputs[row.id]), tuple(outputs[row.id])) for row in rows]


def _run(row: Any, inputs: tuple[str, ...], outputs: tuple[File, ...]) -> JobRun:
    return JobRun(
        job=row.id,
        kind=row.kind,
        index=row.index,
        state=JOB_STATES[row.state],
        error=row.error,
        attempt=row.attempt,
        queue=row.queue,
        node=row.node or "",
        agent_version=row.agent_version or "",
        started=row.started,
        ended=row.ended,
        exit_code=row.exit_code,
        inputs=inputs,
        outputs=outputs,
    )
