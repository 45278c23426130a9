"""Inputs, storages and transfers between them: B11, B12, B16, B18, B19, B24."""

import numpy as np

from pilotage.model.records.states import JobState
from pilotage.model.records.storage_spaces import LEAST_FREE
from pilotage.model.values.phrases import moment
from pilotage.policies.brokerage.engine.arrays import Column, Mask
from pilotage.policies.brokerage.engine.check import NEVER, Check, Rows, Verdict, check
from pilotage.policies.brokerage.engine.needs import without_source
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns

GIGABYTE = 1e9
_OPEN = "the storage is opened again"


@check("B11", "input to move", "wait", reads=("to_move",), unit="GB", lifted_by="a replica arrives")
def size_to_move(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """I/O-intensive work brokered together moves fewer GB than ``size_cutoff_to_move_input``."""
    missing = tasks.input_table.missing_size[tasks.to_move[:, 0]] / GIGABYTE
    has_files = tasks.input_table.files[tasks.to_move[:, 0]] > 0
    return _not_above(missing, tasks.constant("size_cutoff_to_move_input"), has_files, queues)


@check(
    "B11",
    "files to move",
    "wait",
    reads=("to_move",),
    unit="files",
    lifted_by="a replica arrives",
)
def files_to_move(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """I/O-intensive work brokered together moves fewer files than ``num_cutoff_to_move_input``."""
    missing = tasks.input_table.missing_files[tasks.to_move[:, 0]]
    has_files = tasks.input_table.files[tasks.to_move[:, 0]] > 0
    return _not_above(missing, tasks.constant("num_cutoff_to_move_input"), has_files, queues)


def _not_above(missing: Column, cutoff: Column, has_files: Mask, queues: QueueColumns) -> Verdict:
    refused = (missing >= cutoff) & has_files
    if not refused.any():
        return NEVER
    have = Rows(missing.take(queues.storage, axis=1), np.arange(len(missing)))
    return Verdict(refused.take(queues.storage, axis=1), cutoff, have)


@check(
    "B12",
    "disk I/O",
    "wait",
    reads=("disk_io", "cores"),
    unit="kB/s per core",
    lifted_by="the queue's disk I/O falls",
)
def disk_io(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse tasks above the queue's limit while its running jobs exceed it."""
    declared = queues.max_disk_io
    limit = np.where(np.isnan(declared), tasks.constant("max_diskio_default"), declared)
    need = tasks.disk_io / tasks.cores_at(queues)
    return Verdict((queues.live.disk_io > limit) & (need > limit), need, limit)


@check("B16", "direct access", "user", reads=("direct_only",), lifted_by="allow copies of the input")
def direct_access(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse tasks that only read directly, at queues that cannot do so."""
    return Verdict(tasks.direct_only & ~queues.direct_access, "direct access", "copies only")


@check("B18", "storage", "wait", unit="GB", lifted_by="space is freed there")
def storage_space(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The queue's storage reports more free space than ``storage_min_free``."""
    free, reported_at = queues.live.space
    least = _least_free(tasks, queues)
    refused = (free <= least) & ~np.isnan(reported_at)
    if not refused.any():
        return NEVER
    times = reported_at[refused.any(axis=0)]
    when = " to ".join(dict.fromkeys(moment(time) for time in (times.min(), times.max())))
    return Verdict(refused, least, free, f"space is freed there, as measured {when}")


def _least_free(tasks: TaskColumns, queues: QueueColumns) -> Column:
    """Return the GB that must be free: declared by the storage, else by the brokerage, else 200 (B18)."""
    configured = tasks.constant("storage_min_free")
    usual = np.where(np.isnan(configured), LEAST_FREE, configured)
    return np.where(np.isnan(queues.storage_min_free), usual, queues.storage_min_free)


@check(
    "B18",
    "declared storage",
    "operator",
    unit="GB",
    lifted_by="the federation's file declares more as the storage's `free`",
)
def declared_space(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """The federation declares more than ``storage_min_free`` for a storage that does not report its free
    space."""
    free, reported_at = queues.live.space
    least = _least_free(tasks, queues)
    return Verdict((free <= least) & np.isnan(reported_at), least, free)


@check("B19", "read_lan blacklisted", "operator", reads=("inputs",), lifted_by=_OPEN)
def read_lan(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """A job with input reads it from the queue's storage."""
    return Verdict(_has_inputs(tasks) & queues.blacklists["read_lan"], "read_lan", "blacklisted")


@check("B19", "write_lan blacklisted", "operator", reads=("outputs",), lifted_by=_OPEN)
def write_lan(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """A job with outputs writes them to the queue's storage."""
    return Verdict(tasks.outputs & queues.blacklists["write_lan"], "write_lan", "blacklisted")


@check("B19", "write_wan blacklisted", "operator", reads=("inputs",), lifted_by=_OPEN)
def write_wan(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """A job with missing input needs remote writes to the queue's storage."""
    closed = queues.blacklists["write_wan"]
    if not closed.any():
        return NEVER
    return Verdict(closed & (tasks.missing_files(queues) > 0), "write_wan", "blacklisted")


@check("B19", "read_wan blacklisted", "operator", reads=("outputs", "nucleus"), lifted_by=_OPEN)
def read_wan(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Outputs are read remotely from the queue's storage on their way to the nucleus."""
    away = tasks.outputs & ~tasks.links.here[tasks.nucleus[:, 0]]
    return Verdict(away & queues.blacklists["read_wan"], "read_wan", "blacklisted")


@check("B19", "nucleus blacklisted", "operator", reads=("outputs", "nucleus"), lifted_by=_OPEN)
def nucleus_storage(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Outputs are written remotely to the nucleus: one of its storages must accept them."""
    del queues
    away = tasks.outputs & ~tasks.links.here[tasks.nucleus[:, 0]]
    return Verdict(away & tasks.links.closed[tasks.nucleus[:, 0]], "write_wan at the nucleus", "blacklisted")


@check(
    "B19",
    "no readable source",
    "wait",
    reads=("inputs",),
    lifted_by="a storage with the input is opened",
    optional=False,
)
def readable_source(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Every missing input file can be delivered from a storage that holds it.

    Otherwise staging could not bring it.
    """
    refused = without_source(tasks, queues)
    return NEVER if refused is None else Verdict(refused, "read_wan at a source", "none")


@check("B24", "transferring", "wait", unit="jobs", lifted_by="transferring jobs finish")
def transferring(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """At most ``transferring_limit`` jobs are transferring, or twice the running jobs if that is more."""
    of_queue = queues.transferring_limit
    declared = np.where(np.isnan(of_queue), tasks.constant("transferring_limit"), of_queue)
    limit = np.maximum(declared, 2 * queues.live.jobs[JobState.RUNNING])
    moving = queues.live.jobs[JobState.TRANSFERRING]
    return Verdict(moving > limit, limit, moving)


def _has_inputs(tasks: TaskColumns) -> Mask:
    mask: Mask = tasks.input_table.files[tasks.inputs[:, 0]] > 0
    return mask


CHECKS: tuple[Check, ...] = (
    size_to_move,
    files_to_move,
    disk_io,
    direct_access,
    storage_space,
    declared_space,
    read_lan,
    write_lan,
    write_wan,
    read_wan,
    nucleus_storage,
    readable_source,
    transferring,
)
