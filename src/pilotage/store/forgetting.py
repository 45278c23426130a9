"""Delete replicas, files and datasets that are gone, or that nobody wants; what somebody reads stays."""

from sqlalchemy import Connection, bindparam, delete, select

from pilotage.model.decision import Forget
from pilotage.model.states import LIVE_JOBS

from . import datasets, failed_deliveries
from .columns import has_state
from .files import files, replicas
from .jobs import job_inputs, jobs
from .sets import among

_FORGET_REPLICA = delete(replicas).where(
    replicas.c.file == bindparam("lost_file"), replicas.c.storage == bindparam("lost_storage")
)
_READ = (
    select(job_inputs.c.job)
    .join(jobs, jobs.c.id == job_inputs.c.job)
    .where(job_inputs.c.file == files.c.name, has_state(jobs, *LIVE_JOBS))
    .correlate(files)
)
_READ_THERE = (
    select(job_inputs.c.job)
    .join(jobs, jobs.c.id == job_inputs.c.job)
    .where(job_inputs.c.file == replicas.c.file, has_state(jobs, *LIVE_JOBS))
    .correlate(replicas)
)
_other = replicas.alias()
_HELD_ELSEWHERE = (
    select(_other.c.file)
    .where(_other.c.file == replicas.c.file, _other.c.storage != replicas.c.storage)
    .correlate(replicas)
)
# Asked again here: somebody may have forgotten the original since the decision was made.
_FORGET_IF_UNREAD = _FORGET_REPLICA.where(~_READ_THERE.exists(), _HELD_ELSEWHERE.exists())
_FORGET_REPLICAS_OF = delete(replicas).where(
    replicas.c.file.in_(select(files.c.name).where(among(files.c.name, "names"), ~_READ.exists()))
)
_FORGET_FILES = delete(files).where(among(files.c.name, "names"), ~_READ.exists())


def forget(connection: Connection, change: Forget) -> None:
    """Delete what the change names and nobody wants; ignore what is missing."""
    rows = [{"lost_file": replica.file, "lost_storage": replica.storage} for replica in change.replicas]
    if rows:
        connection.execute(_FORGET_IF_UNREAD if change.if_unread else _FORGET_REPLICA, rows)
    if change.files:
        connection.execute(_FORGET_REPLICAS_OF, {"names": list(change.files)})
        connection.execute(_FORGET_FILES, {"names": list(change.files)})
    if change.datasets:
        datasets.forget(connection, change.datasets)
    if change.failed_at:
        failed_deliveries.clear(connection, change.failed_at)
