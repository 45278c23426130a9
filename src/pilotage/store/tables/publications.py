"""Publications: their table, and the world in which they are decided about."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Column, Double, Index, String, Table, bindparam, or_, select, text

from pilotage.model.documents.world import World
from pilotage.model.records.publications import Publication
from pilotage.model.records.states import LIVE_PUBLICATIONS, PublicationState
from pilotage.store.database.columns import (
    Id,
    id_column,
    is_state,
    life_columns,
    metadata,
    partial_index,
    text_column,
)
from pilotage.store.tables.reader import RecordReader

MOST_DUE = 5000
"""Publications of one catalogue that a pass looks at."""

publications = Table(
    "publications",
    metadata,
    id_column(),
    Column("task", Id, nullable=False),
    Column("catalogue", String, nullable=False),
    Column("dataset", String, nullable=False),
    Column("file", String, nullable=False),
    *life_columns(),
    Column("asked", Double, nullable=False),
    Column("wake_at", Double, nullable=False),
    text_column("server"),
    text_column("history"),
    Index("publications_by_task", "task", "state", "id"),
    Index("publications_by_file", "file"),
    Index("publications_by_state", "state", "since", "id"),
)

_p = publications.c
_WAITS = is_state(publications, PublicationState.WAITING)

partial_index("publications_due", _p.catalogue, _p.wake_at, _p.id, where=_WAITS)
partial_index("publications_under_way", _p.id, where=is_state(publications, PublicationState.PUBLISHING))

PUBLICATION_COLUMNS = (
    *(_p.id, _p.task, _p.dataset, _p.file, _p.state, _p.attempt, _p.created, _p.since, _p.asked, _p.wake_at),
    *(_p.error, _p.server),
)
_STATES = {str(state): state for state in PublicationState}

_sibling = publications.alias("sibling")
_LIVE_FILE = select(_sibling.c.id).where(
    _sibling.c.task == _p.task,
    or_(*(_sibling.c.state == str(state) for state in LIVE_PUBLICATIONS)),
    _sibling.c.file != "",
)
_DUE = (
    select(*PUBLICATION_COLUMNS)
    .where(_WAITS, _p.catalogue == bindparam("catalogue"), _p.wake_at <= bindparam("time"))
    .where(or_(_p.file != "", ~_LIVE_FILE.exists()))
    .order_by(_p.wake_at, _p.id)
    .limit(MOST_DUE)
)
# From each catalogue to the next: whatever waits for one is passed over.
_WAITING_FOR = f"SELECT min(catalogue) FROM publications WHERE state = '{PublicationState.WAITING}'"
_CATALOGUES = text(f"""
WITH RECURSIVE catalogues (name) AS (
  {_WAITING_FOR}
  UNION ALL
  SELECT ({_WAITING_FOR} AND catalogue > catalogues.name)
  FROM catalogues WHERE catalogues.name IS NOT NULL
) SELECT name FROM catalogues WHERE name IS NOT NULL""")
_UNDER_WAY = (
    select(*PUBLICATION_COLUMNS).where(is_state(publications, PublicationState.PUBLISHING)).order_by(_p.id)
)
_OF_TASK = (
    select(*PUBLICATION_COLUMNS)
    .where(_p.task == bindparam("task"), _p.state == bindparam("state"))
    .order_by(_p.id)
    .limit(MOST_DUE)
)


def publication(row: Sequence[Any]) -> Publication:
    """Make a publication of a row that begins with :data:`PUBLICATION_COLUMNS`."""
    id_, task, dataset, file, state, attempt, created, since, asked, wake_at, error, server = row[:12]
    return Publication(
        id=id_,
        task=task,
        dataset=dataset,
        file=file,
        state=_STATES[state],
        attempt=attempt,
        created=created,
        since=since,
        asked=asked,
        wake_at=wake_at,
        error=error,
        server=server,
    )


def read(reader: RecordReader, world: World) -> dict[str, Any]:
    """Publications due at each catalogue, those under way, and those that failed of datasets to close."""
    due = [publication(row) for row in _due(reader, world)]
    closing = sorted({one.task for one in due if not one.file})
    under_way = [publication(row) for row in reader.raw_rows(_UNDER_WAY)]
    failed = [lost for task in closing for lost in of_task(reader, task, PublicationState.FAILED)]
    files = reader.files({one.file for one in due if one.file})
    found = {one.id: one for one in (*due, *under_way, *failed)}
    return {
        "publications": tuple(found[id_] for id_ in sorted(found)),
        "files": files,
        "replicas": reader.replicas_of(files),
    }


def _due(reader: RecordReader, world: World) -> Iterator[Sequence[Any]]:
    # For each catalogue by itself: what waits for one that is dead must not fill the others' pass.
    for (name,) in reader.raw_rows(_CATALOGUES):
        yield from reader.raw_rows(_DUE, time=world.time, catalogue=name)


def of_task(reader: RecordReader, task: int, state: PublicationState) -> tuple[Publication, ...]:
    """Read publications of a task that are in a state, :data:`MOST_DUE` at most."""
    return tuple(map(publication, reader.raw_rows(_OF_TASK, task=task, state=str(state))))
