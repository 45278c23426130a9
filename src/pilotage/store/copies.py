"""Copies that Pilotage made: when they were used last, and whether anybody wants them."""

from collections import Counter, defaultdict
from typing import Any

from sqlalchemy import bindparam, func, literal_column, select

from pilotage.model.data import CopiesSize, Copy
from pilotage.model.scopes import split_identifier
from pilotage.model.world import World

from . import catalogue
from .files import files, replicas
from .jobs import job_inputs, jobs
from .reader import RecordReader
from .sets import among

_r, _f = replicas.c, files.c
# Written out, as the condition of the index on copies is.
_IS_COPY = _r.path != literal_column("''")
_LIMIT: Any = bindparam("limit", type_=None)
_COPIES = (
    select(_r.file, _r.storage, _r.path, _f.size, func.coalesce(_r.since, 0.0))
    .join(files, _f.name == _r.file)
    .where(_IS_COPY)
    .order_by(_r.since, _r.file)
    .limit(_LIMIT)
)
_SIZES = select(_r.storage, _r.file, _f.size).join(files, _f.name == _r.file).where(_IS_COPY)
_USES = (
    select(job_inputs.c.file, jobs.c.queue, func.max(jobs.c.since))
    .join(jobs, jobs.c.id == job_inputs.c.job)
    .where(among(job_inputs.c.file, "names"))
    .group_by(job_inputs.c.file, jobs.c.queue)
)


def read(reader: RecordReader, world: World, limit: int) -> dict[str, Any]:
    """Read the copies that came first, and how much all of them take; nothing before the period is over."""
    cleaned = reader.iterated("clean")
    if cleaned is not None and world.time - cleaned < world.federation.staging.cleaning_period:
        return {"cleaned": cleaned}
    found = list(reader.rows(_COPIES, limit=limit))
    names = sorted({row[0] for row in found})
    wanted = catalogue.wanted_of(reader, names)
    lying: dict[str, list[str]] = defaultdict(list)
    for file, storage in reader.rows(
        select(_r.file, _r.storage).where(among(_r.file, "names")).order_by(_r.file, _r.storage), names=names
    ):
        lying[file].append(storage)
    storages = {queue.name: queue.storage for queue in world.federation.queues}
    used: dict[tuple[str, str], float] = defaultdict(float)
    for file, queue, last in reader.rows(_USES, names=names):
        place = file, storages.get(queue, "")
        used[place] = max(used[place], last)
    copies = tuple(
        Copy(
            file=file,
            storage=storage,
            path=path,
            size=size,
            used=max(since, used.get((file, storage), 0.0)),
            wanted=file in wanted,
            elsewhere=tuple(other for other in lying[file] if other != storage),
        )
        for file, storage, path, size, since in found
    )
    return {"copies": copies, "copies_sizes": _sizes(reader), "cleaned": cleaned}


def _sizes(reader: RecordReader) -> tuple[CopiesSize, ...]:
    """Add up the bytes of all copies by storage and scope."""
    sizes: Counter[tuple[str, str]] = Counter()
    for storage, file, size in reader.rows(_SIZES):
        sizes[storage, split_identifier(file)[0]] += size
    return tuple(
        CopiesSize(storage=storage, scope=scope, size=size)
        for (storage, scope), size in sorted(sizes.items())
    )
