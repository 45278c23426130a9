"""Delete replicas, files and datasets that are gone or unwanted. Files that a task or job reads stay."""

from dataclasses import replace

from sqlalchemy import Connection, bindparam, delete, select

from pilotage.model.documents.decision import Forget
from pilotage.model.records.states import LIVE_JOBS
from pilotage.store.database.columns import has_state
from pilotage.store.database.rows import among
from pilotage.store.files import datasets
from pilotage.store.files.catalogue import wanted_of
from pilotage.store.files.table import files, replicas
from pilotage.store.jobs.table import job_inputs, jobs
from pilotage.store.people import grants
from pilotage.store.queues import circuit_breakers
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import SpecCache

CLOCKS_DIFFER = 60.0
"""Largest difference between servers' clocks, in s."""

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
_other_replicas = replicas.alias()
_HELD_ELSEWHERE = (
    select(_other_replicas.c.file)
    .where(_other_replicas.c.file == replicas.c.file, _other_replicas.c.storage != replicas.c.storage)
    .correlate(replicas)
)
# Check again here: a person may have made Pilotage forget the original since the decision.
_FORGET_IF_UNREAD = _FORGET_REPLICA.where(~_READ_THERE.exists(), _HELD_ELSEWHERE.exists())
_FORGET_REPLICAS_OF = delete(replicas).where(
    replicas.c.file.in_(select(files.c.name).where(among(files.c.name, "names"), ~_READ.exists()))
)
_FORGET_FILES = delete(files).where(among(files.c.name, "names"), ~_READ.exists())


def forget(connection: Connection, change: Forget, time: float, actor: str) -> None:
    """Delete the unwanted records that a change names, for a decision of this time. Ignore missing ones."""
    gone = 0
    if change.if_unwanted:
        change = _unwanted(connection, change, time)
    rows = [{"lost_file": replica.file, "lost_storage": replica.storage} for replica in change.replicas]
    if rows:
        connection.execute(_FORGET_IF_UNREAD if change.if_unread else _FORGET_REPLICA, rows)
    if change.files:
        connection.execute(_FORGET_REPLICAS_OF, {"names": list(change.files)})
        gone += connection.execute(_FORGET_FILES, {"names": list(change.files)}).rowcount
    if change.datasets:
        forgotten, members = datasets.forget(connection, change.datasets)
        grants.forget(connection, "dataset", forgotten)
        gone += members
    datasets.add_registrations(connection, actor, -gone)
    if change.failed_at:
        circuit_breakers.clear(connection, change.failed_at)
    if change.lifted:
        circuit_breakers.lift(connection, change.lifted, time)


def _unwanted(connection: Connection, change: Forget, time: float) -> Forget:
    """Return the change without files that a new task has wanted since the decision."""
    names = {replica.file for replica in change.replicas} | set(change.files)
    reader = RecordReader(connection, SpecCache())
    in_use = wanted_of(reader, sorted(names), since=time - CLOCKS_DIFFER)
    return replace(
        change,
        replicas=tuple(replica for replica in change.replicas if replica.file not in in_use),
        files=tuple(file for file in change.files if file not in in_use),
    )
