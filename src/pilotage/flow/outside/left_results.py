"""Take the results that pilots left in sites' spools.

A file is believed if it has the checksum that its manifest names (``left_manifests.py``).
"""

import base64
import hashlib
import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from pilotage.flow.outside import removals
from pilotage.flow.outside.deliveries import log_breakers
from pilotage.flow.outside.elements import place_of
from pilotage.flow.outside.left_manifests import LeftOutput, read
from pilotage.model.documents.world import Heartbeat, World
from pilotage.model.records.federation import Queue
from pilotage.model.records.observations import WaitingResults
from pilotage.model.records.states import AT_A_PILOT
from pilotage.model.records.work import Job
from pilotage.model.values.paths import scratch_path
from pilotage.policies.pilots import reports as policy
from pilotage.ports.computing import ResultsKeeper
from pilotage.ports.moving import StorageError
from pilotage.store.pilots.reports import told_by_pilots
from pilotage.store.pilots.waiting_results import LONGEST, SpooledResults

if TYPE_CHECKING:
    from pilotage.flow.runtime import Runtime

log = logging.getLogger(__name__)
CHUNK = 16 << 20
"""Bytes that one call reads from a spool."""


class _FalseResultsError(Exception):
    """The bytes in a spool differ from the pilot's manifest."""


def take_due(runtime: "Runtime", world: World) -> None:
    """Take results from spools, in the background. Failures are tried again later."""
    queues = {queue.name: queue for queue in world.federation.queues if queue.computing_element}
    for results in runtime.store.results_in_spools.take_due(world.time):
        queue = queues.get(results.queue)
        if world.time >= results.until or queue is None:
            runtime.store.results_in_spools.done(results)
        else:
            place = f"results at {place_of(queue, results.server)}"
            runtime.workers.call(place, partial(_take, runtime, queue, results), LONGEST)


def _take(runtime: "Runtime", queue: Queue, results: SpooledResults) -> None:
    """Take results of an attempt from their spool if a job still waits for them. Remove them there."""
    try:
        pilot = runtime.store.queries.pilot(results.pilot)
        keeper = runtime.elements.adapter(queue, results.server, pilot.credential if pilot else "")
        if not isinstance(keeper, ResultsKeeper):
            raise LookupError(f"queue {queue.name} has no spool now")
        world = runtime.world(told_by_pilots([Heartbeat(pilot=results.pilot)]))
        if job := _waiting_job(world, results):
            _store_all(runtime, world, queue, job, keeper, results)
        keeper.drop_left([results.place])
    except Exception as error:
        problem = str(error) or repr(error)
        log.warning("job %d: its results cannot be taken from the spool: %s", results.job, problem)
        runtime.store.results_in_spools.put_off(results, runtime.clock(), problem[:500])
        return
    runtime.store.results_in_spools.done(results)


def _store_all(
    runtime: "Runtime", world: World, queue: Queue, job: Job, keeper: ResultsKeeper, results: SpooledResults
) -> None:
    """Store the outputs, and accept the report. Refuse both if a file does not match the manifest."""
    manifest = read(results.manifest)
    try:
        for number, file in enumerate(manifest.files):
            _store(runtime, world, queue, job, _Spooled(keeper, results.place, number, file))
    except _FalseResultsError as error:
        log.error("job %d: what lies in the spool of queue %s is refused: %s", results.job, queue.name, error)
    else:
        accept(runtime, results)


def _waiting_job(world: World, results: WaitingResults) -> Job | None:
    """Return the job that waits for these results; None if it has ended or has a new attempt."""
    pairs = {(job.id, job.attempt, job.pilot): job for job in world.jobs if job.state in AT_A_PILOT}
    return pairs.get((results.job, results.attempt, results.pilot))


class _Spooled:
    """A file in a spool as a stream. Its last read raises _FalseResultsError if its checksum is wrong.

    ``fault`` is that error, because movers wrap it in theirs.
    """

    def __init__(self, keeper: ResultsKeeper, place: str, number: int, file: LeftOutput) -> None:
        self.file = file
        self.fault: _FalseResultsError | None = None
        self._parts = self._read(keeper, place, number)
        self._rest = b""

    def _read(self, keeper: ResultsKeeper, place: str, number: int) -> Iterator[bytes]:
        at, checksum = 0, hashlib.sha256()
        while at < self.file.size:
            part = base64.b64decode(keeper.read_left(place, number, at, min(CHUNK, self.file.size - at)))
            if not part:
                break
            at += len(part)
            checksum.update(part)
            if at == self.file.size and checksum.hexdigest() != self.file.sha256:
                break
            yield part
        if checksum.hexdigest() != self.file.sha256:
            self.fault = _FalseResultsError(f"output {self.file.name} is not what its pilot left")
            raise self.fault

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes."""
        if not self._rest:
            self._rest = next(self._parts, b"")
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def _store(runtime: "Runtime", world: World, queue: Queue, job: Job, stream: _Spooled) -> None:
    """Store one output in the attempt's scratch area."""
    storage = next(storage for storage in world.federation.storages if storage.name == queue.storage)
    path = scratch_path(world.federation.name, job.id, job.attempt, stream.file.name)
    try:
        runtime.deliveries.store(storage, path, stream, stream.file.size)
    except StorageError as error:
        raise stream.fault or error from error


def accept(runtime: "Runtime", results: SpooledResults) -> None:
    """Process the report, once all outputs are stored, as if its pilot had called.

    The commit refuses it if the job has moved on.
    """
    manifest = read(results.manifest)
    world = runtime.world(told_by_pilots([Heartbeat(pilot=results.pilot, reports=(manifest.report,))]))
    runtime.store.logs.put(policy.owned(world, manifest.kept_logs()), world.time)
    decision = policy.accept(world)
    committed = runtime.store.commit(decision, f"pilot:{results.pilot}")
    log_breakers(world, decision, committed)
    removals.clear(runtime, world, decision, committed)
