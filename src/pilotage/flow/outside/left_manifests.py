"""Manifests of results that pilots left in sites' spools: they are verified and recorded.

A manifest is believed if its pilot sealed it (``agent/files/spool_wire.py``). So people who can write into a
spool can destroy results there, but not forge any.
"""

import hmac
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.agent.files.spool_wire import seal
from pilotage.flow.attempt_logs import AttemptLogs
from pilotage.model.documents.serialization import from_document
from pilotage.model.documents.world import Report
from pilotage.model.records.federation import Queue
from pilotage.model.records.logs import KeptLog
from pilotage.model.records.work import Pilot
from pilotage.model.values.types import FileName, Whole
from pilotage.ports import Clock
from pilotage.ports.computing import LeftBehind
from pilotage.store import Store
from pilotage.store.pilots.waiting_results import SpooledResults

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutput:
    """An output in a spool: its name, bytes and SHA-256."""

    name: FileName
    size: Whole
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftManifest:
    """What a pilot left of an attempt: its report, its logs, and outputs that no storage has."""

    report: Report
    files: tuple[LeftOutput, ...] = ()
    logs: AttemptLogs | None = None

    def kept_logs(self) -> list[KeptLog]:
        """Return the logs of this attempt in the store's form."""
        logs = self.logs.kept_logs() if self.logs else ()
        return [log for log in logs if (log.key.record, log.key.attempt) == self.pair]

    @property
    def pair(self) -> tuple[int, int]:
        """Return the job and its attempt."""
        return self.report.job, self.report.attempt


def keep(
    store: Store, clock: Clock, queue: Queue, server: str, pilot: Pilot, leftovers: Sequence[LeftBehind]
) -> None:
    """Record what an ended pilot left in its spool. Raises the database's error."""
    now = clock()
    results = [
        result for leftover in leftovers if (result := _verified(store, queue, server, pilot, leftover, now))
    ]
    store.results_in_spools.add(results)
    for result in results:
        log.info("job %d: results of its attempt wait in the spool of queue %s", result.job, queue.name)


def _verified(
    store: Store, queue: Queue, server: str, pilot: Pilot, leftover: LeftBehind, now: float
) -> SpooledResults | None:
    seals, _, text = leftover.manifest.partition("\n")
    try:
        manifest = read(text)
        job, attempt = manifest.pair
        token = store.tokens.hash_of_pilot(pilot.id)
        if not hmac.compare_digest(seal(token, job, attempt, text.encode()).encode(), seals.encode()):
            raise ValueError(f"pilot {pilot.id} did not seal it")
    except (ValueError, RecursionError) as error:
        log.warning(
            "queue %s: what lies in its spool at %s is refused: %s", queue.name, leftover.place, error
        )
        return None
    return SpooledResults(
        job=job,
        attempt=attempt,
        pilot=pilot.id,
        queue=queue.name,
        size=sum(file.size for file in manifest.files),
        since=now,
        until=now + leftover.days * 86400,
        server=server,
        place=leftover.place,
        manifest=text,
        due=now,
    )


def read(text: str) -> LeftManifest:
    """Return a manifest. Raises ValueError."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("not an object")
    read = from_document(LeftManifest, document)
    sizes = {output.name: output.size for output in read.report.outputs}
    if any(sizes.get(file.name) != file.size for file in read.files):
        raise ValueError("its files are not those of its report")
    return read
