"""Copies that Pilotage made: their last use, and whether any task wants them."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any

from sqlalchemy import and_, bindparam, func, or_, select

from pilotage.model.documents.world import World
from pilotage.model.records.data import CopiesSize, Copy
from pilotage.model.records.states import LIVE_JOBS, LIVE_TRANSFERS
from pilotage.model.records.unable_ways import iteration_name, undeletable
from pilotage.model.rules import copies_quotas as quotas
from pilotage.model.values.scopes import split_identifier
from pilotage.model.values.step_names import CLEAN
from pilotage.store.database.columns import begins, has_state, is_state
from pilotage.store.database.rows import among
from pilotage.store.files.catalogue import asked_by_tasks, wanted_of
from pilotage.store.files.table import IS_COPY, files, replicas
from pilotage.store.jobs.table import job_inputs, jobs
from pilotage.store.reader import RecordReader
from pilotage.store.transfers.table import transfers
from pilotage.store.worlds.parts import Reading, WorldPart

_r, _f = replicas.c, files.c
_LIMIT: Any = bindparam("limit", type_=None)
_other_replicas = replicas.alias()
_ELSEWHERE = select(_other_replicas.c.file).where(
    _other_replicas.c.file == _r.file,
    _other_replicas.c.storage != _r.storage,
    among(_other_replicas.c.storage, "storages"),
)
_USED = (
    select(job_inputs.c.file)
    .join(jobs, jobs.c.id == job_inputs.c.job)
    .where(
        job_inputs.c.file == _r.file,
        jobs.c.since >= bindparam("before"),
        among(_r.storage + " " + jobs.c.queue, "places"),
    )
)
_READ = (
    select(job_inputs.c.file)
    .join(jobs, jobs.c.id == job_inputs.c.job)
    .where(job_inputs.c.file == _r.file, has_state(jobs, *LIVE_JOBS))
)
_MOVING = select(transfers.c.file).where(transfers.c.file == _r.file, is_state(transfers, *LIVE_TRANSFERS))
_COPIES = (
    select(_r.file, _r.storage, _r.path, _f.size, func.coalesce(_r.since, 0.0))
    .join(files, _f.name == _r.file)
    # Exclude copies that must stay or that only other servers delete. Else they could fill the whole limit.
    .where(
        IS_COPY,
        ~among(_r.storage, "unable"),
        _ELSEWHERE.exists(),
        ~_READ.exists(),
        ~_MOVING.exists(),
        ~among(_r.file, "asked"),
    )
    .order_by(_r.since, _r.file)
    .limit(_LIMIT)
)
_AGED = and_(func.coalesce(_r.since, 0.0) < bindparam("before"), ~_USED.exists())
_SIZES = select(_r.storage, _r.file, _f.size).join(files, _f.name == _r.file).where(IS_COPY)
_USES = (
    select(job_inputs.c.file, jobs.c.queue, func.max(jobs.c.since))
    .join(jobs, jobs.c.id == job_inputs.c.job)
    .where(among(job_inputs.c.file, "names"))
    .group_by(job_inputs.c.file, jobs.c.queue)
)


def copies(limit: int) -> WorldPart:
    """Read the first copies that may go where this process can delete them, and the total size of all.

    Nothing is read before the next check is due.
    """
    return WorldPart(("copies", "copies_sizes", "cleaned"), lambda reading: _read(reading, limit))


def _read(reading: Reading, limit: int) -> Mapping[str, Any]:
    reader, world = reading.reader, reading.world
    cleaned = reader.iterated(iteration_name(CLEAN, reading.now.unable))
    if cleaned is not None and world.time - cleaned < world.federation.staging.cleaning_period:
        return {"cleaned": cleaned}
    sizes = _sizes(reader)
    if not sizes:
        return {"cleaned": cleaned}
    rows = _may_go(reader, world, sizes, undeletable(world.federation.storages, reading.now.unable), limit)
    names = sorted({row[0] for row in rows})
    needs = wanted_of(reader, names)
    lying: dict[str, list[str]] = defaultdict(list)
    for file, storage in reader.rows(
        select(_r.file, _r.storage).where(among(_r.file, "names")).order_by(_r.file, _r.storage), names=names
    ):
        lying[file].append(storage)
    storages = {queue.name: queue.storage for queue in world.federation.queues}
    last_uses: dict[tuple[str, str], float] = defaultdict(float)
    for file, queue, last in reader.rows(_USES, names=names):
        place = file, storages.get(queue, "")
        last_uses[place] = max(last_uses[place], last)
    found_copies = tuple(
        Copy(
            file=file,
            storage=storage,
            path=path,
            size=size,
            used=max(since, last_uses.get((file, storage), 0.0)),
            wanted=file in needs,
            elsewhere=tuple(name for name in lying[file] if name != storage),
        )
        for file, storage, path, size, since in rows
    )
    return {"copies": found_copies, "copies_sizes": sizes, "cleaned": cleaned}


def _may_go(
    reader: RecordReader, world: World, sizes: Sequence[CopiesSize], unable: Set[str], limit: int
) -> list[Any]:
    """Return the first copies that may go: too old, or at a storage over quota."""
    federation = world.federation
    conditions = [_AGED]
    for place, scope in quotas.exceeded(federation, sizes):
        begins_so = () if scope is None else (begins(_r.file, f"{scope}:", ""),)
        conditions.append(and_(_r.storage == place, *begins_so))
    return list(
        reader.rows(
            _COPIES.where(or_(*conditions)),
            limit=limit,
            before=world.time - federation.staging.copies_kept,
            storages=[storage.name for storage in federation.storages],
            places=[f"{queue.storage} {queue.name}" for queue in federation.queues],
            asked=sorted(asked_by_tasks(reader)),
            unable=sorted(unable),
        )
    )


def _sizes(reader: RecordReader) -> tuple[CopiesSize, ...]:
    """Return the total bytes of copies by storage and scope."""
    sizes: Counter[tuple[str, str]] = Counter()
    for storage, file, size in reader.rows(_SIZES):
        sizes[storage, split_identifier(file)[0]] += size
    return tuple(
        CopiesSize(storage=storage, scope=scope, size=size)
        for (storage, scope), size in sorted(sizes.items())
    )
