"""Look again at inputs before their jobs are retried: their owner may have replaced or restored them."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from pilotage.explain.words import few
from pilotage.flow.calls.data.corrections import FileThere, agrees, described, look_at, record
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Creation
from pilotage.model.records.federation import Storage
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, InputFile, Job, Task
from pilotage.ports.moving import StorageError
from pilotage.store.files.catalogue import CatalogueEntry

log = logging.getLogger(__name__)

RESCAN_TIME = 30.0
"""Time limit in s for looking at inputs again, per retry."""


@dataclass(frozen=True, slots=True)
class Rescan:
    """The number of inputs to look at again, and in order the ones that were not checked in time."""

    inputs: int
    unchecked: Sequence[str] = ()

    def describe(self, task: int) -> str:
        """Return the inputs that were not checked and the remedy, for a person; empty if all were."""
        if not self.unchecked:
            return ""
        those = (
            f"{len(self.unchecked):,} of {self.inputs:,} inputs were" if self.inputs > 1 else "its input was"
        )
        return (
            f"{those} not looked at again within {RESCAN_TIME:g} s ({few(self.unchecked)}): jobs read what "
            f"is known of them. If you replaced one, retry its jobs again once they fail: "
            f"pilotage retry {task}"
        )


def rescan(runtime: Runtime, task: Task, jobs: Iterable[Job], actor: str) -> Rescan:
    """Look at the inputs of these jobs at the storages that their task names, and record the changes.

    Skip files that jobs made. Begin with failed jobs, and stop after ``RESCAN_TIME`` s. Files that cannot be
    seen, and the rest, keep their known descriptions.
    """
    task_files = {file.identifier: file for file in task.spec.inputs if isinstance(file, InputFile)}
    failed_first = sorted(jobs, key=lambda job: (job.state is not JobState.FAILED, job.id))
    names = dict.fromkeys(name for job in failed_first for name in job.inputs if name in task_files)
    storages = {storage.name: storage for storage in runtime.store.federation().storages}
    # Not the runtime's clock: this limits how long a thread is busy, even in virtual time.
    end = monotonic() + RESCAN_TIME
    records: list[Creation] = []
    unchecked: list[str] = []
    for name in names:
        if monotonic() >= end:
            unchecked.append(task_files[name].name)
            continue
        places = [
            storages[storage_name] for storage_name in task_files[name].replicas if storage_name in storages
        ]
        entry = runtime.store.catalogue.entry(name)
        records += _news(runtime, entry, places, end) if entry else ()
    record(runtime, records, "looked at again for a retry", actor)
    return Rescan(len(names), unchecked)


def _news(
    runtime: Runtime, entry: CatalogueEntry, storages: Iterable[Storage], end: float
) -> Iterator[Creation]:
    """Yield the file's replicas, and a new description if no storage has the known bytes.

    A storage that cannot be read may have the known bytes. Then the description stays.
    """
    file, paths = entry.file, {replica.storage: replica.path for replica in entry.replicas}
    findings: dict[str, FileThere] = {}
    unread = False
    for storage in storages:
        try:
            finding = look_at(
                runtime, storage, file.name, max(0.1, end - monotonic()), paths.get(storage.name, "")
            )
        except (StorageError, LookupError, OSError) as error:
            log.info("%s cannot be looked at on %s: %s", file.name, storage.name, error)
            unread = True
            continue
        if finding is not None:
            findings[storage.name] = finding
    right = _lying(findings, file)
    if right or unread or not findings:
        yield from described(file, None, right)
    else:
        first = next(iter(findings.values())).file
        yield from described(file, first, _lying(findings, first))


def _lying(findings: Mapping[str, FileThere], like: File | InputFile) -> dict[str, str]:
    """Return the storages where the file matches the description, with its path there."""
    return {
        name: finding.path
        for name, finding in findings.items()
        if agrees(like.size, like.checksum, finding.file)
    }
