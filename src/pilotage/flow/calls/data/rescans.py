"""Look again at inputs before their jobs are retried: their owner may have replaced or restored them."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from pilotage.explain.words import few
from pilotage.flow.calls.data.corrections import Seen, agrees, described, record, seen
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
    """The number of inputs to look at again, and in order the ones for which time ran out."""

    inputs: int
    left: Sequence[str] = ()

    def told(self, task: int) -> str:
        """Return the inputs that were not checked and the remedy, for a person; empty if all were."""
        if not self.left:
            return ""
        those = f"{len(self.left):,} of {self.inputs:,} inputs were" if self.inputs > 1 else "its input was"
        return (
            f"{those} not looked at again within {RESCAN_TIME:g} s ({few(self.left)}): jobs read what is "
            f"known of them. If you replaced one, retry its jobs again once they fail: pilotage retry {task}"
        )


def rescan(runtime: Runtime, task: Task, jobs: Iterable[Job], actor: str) -> Rescan:
    """Record the inputs of these jobs as they lie at the storages that their task names.

    Files that jobs made are not among them. A file that cannot be seen stays as it is known. After
    ``RESCAN_TIME`` s the rest stays so, too: failed jobs go first.
    """
    given = {file.identifier: file for file in task.spec.inputs if isinstance(file, InputFile)}
    failed_first = sorted(jobs, key=lambda job: (job.state is not JobState.FAILED, job.id))
    names = dict.fromkeys(name for job in failed_first for name in job.inputs if name in given)
    storages = {storage.name: storage for storage in runtime.store.federation().storages}
    # Not the runtime's clock: this limits how long a thread is busy, even in virtual time.
    end = monotonic() + RESCAN_TIME
    records: list[Creation] = []
    left: list[str] = []
    for name in names:
        if monotonic() >= end:
            left.append(given[name].name)
            continue
        places = [storages[one] for one in given[name].replicas if one in storages]
        entry = runtime.store.catalogue.entry(name)
        records += _news(runtime, entry, places, end) if entry else ()
    record(runtime, records, "looked at again for a retry", actor)
    return Rescan(len(names), left)


def _news(
    runtime: Runtime, entry: CatalogueEntry, storages: Iterable[Storage], end: float
) -> Iterator[Creation]:
    """Yield what differs: another description if no storage has the known bytes, and where the file lies.

    A storage that cannot be read may have the known bytes. So they stay as they are known.
    """
    known, paths = entry.file, {replica.storage: replica.path for replica in entry.replicas}
    found: dict[str, Seen] = {}
    unread = False
    for storage in storages:
        try:
            one = seen(runtime, storage, known.name, max(0.1, end - monotonic()), paths.get(storage.name, ""))
        except (StorageError, LookupError, OSError) as error:
            log.info("%s cannot be looked at on %s: %s", known.name, storage.name, error)
            unread = True
            continue
        if one is not None:
            found[storage.name] = one
    right = _lying(found, known)
    if right or unread or not found:
        yield from described(known, None, right)
    else:
        first = next(iter(found.values())).file
        yield from described(known, first, _lying(found, first))


def _lying(found: Mapping[str, Seen], like: File | InputFile) -> dict[str, str]:
    """Return the storages where the file is as described, with its path there."""
    return {name: one.path for name, one in found.items() if agrees(like.size, like.checksum, one.file)}
