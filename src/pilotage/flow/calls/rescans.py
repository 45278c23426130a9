"""Look again at inputs before their jobs are retried: their owner may have replaced or restored them."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic

from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Create, Creation, Decision
from pilotage.model.records.data import CorrectedFile
from pilotage.model.records.federation import Storage
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, InputFile, Job, Replica, Task
from pilotage.ports.moving import StorageError

from .corrections import agrees, seen
from .inputs import SCAN_TIME

log = logging.getLogger(__name__)


def rescan(runtime: Runtime, task: Task, jobs: Iterable[Job], actor: str) -> int:
    """Record the inputs of these jobs as they lie at the storages that their task names; return how many
    have changed.

    Files that jobs made are not among them. A file that cannot be seen stays as it is known. After
    ``SCAN_TIME`` s the rest stays so, too: failed jobs go first.
    """
    given = {file.identifier: file for file in task.spec.inputs if isinstance(file, InputFile)}
    failed_first = sorted(jobs, key=lambda job: (job.state is not JobState.FAILED, job.id))
    names = dict.fromkeys(name for job in failed_first for name in job.inputs if name in given)
    storages = {storage.name: storage for storage in runtime.store.federation().storages}
    known = {file.name: file for file in runtime.store.catalogue.files(list(names))}
    end = monotonic() + SCAN_TIME
    changed = 0
    records: list[Creation] = []
    for name in names:
        if monotonic() >= end:
            log.warning("task %d: no time was left to look at all of its inputs again", task.id)
            break
        found = _found(runtime, name, [storages[one] for one in given[name].replicas if one in storages], end)
        news = list(_news(known[name], found)) if name in known else []
        changed += isinstance(news[0], CorrectedFile) if news else 0
        records += news
    if records:
        change = Create(records=tuple(records), cause="looked at again for a retry")
        decision = Decision(step="register", time=runtime.clock(), seed=runtime.seeds(), changes=(change,))
        runtime.store.commit(decision, actor)
    return changed


def _found(runtime: Runtime, name: str, storages: Sequence[Storage], end: float) -> Mapping[str, InputFile]:
    """Return a file as it lies at each storage that can be read and has it."""
    found: dict[str, InputFile] = {}
    for storage in storages:
        try:
            file = seen(runtime, storage, name, max(0.1, end - monotonic()))
        except (StorageError, LookupError, OSError) as error:
            log.info("%s cannot be looked at on %s: %s", name, storage.name, error)
            continue
        if file is not None:
            found[storage.name] = file
    return found


def _news(known: File, found: Mapping[str, InputFile]) -> Iterator[Creation]:
    """Yield what differs: another description if no storage has the known bytes, and where the file lies."""
    right = [name for name, file in found.items() if agrees(known.size, known.checksum, file)]
    if not right and found:
        first = next(iter(found.values()))
        right = [name for name, file in found.items() if agrees(first.size, first.checksum, file)]
        yield CorrectedFile(
            name=known.name,
            size=first.size,
            checksum=first.checksum,
            former_size=known.size,
            former_checksum=known.checksum,
        )
    yield from (Replica(file=known.name, storage=name) for name in right)
