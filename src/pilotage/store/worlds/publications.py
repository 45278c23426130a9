"""Outputs to register in catalogues."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, or_, select, text

from pilotage.model.records.publications import Publication
from pilotage.model.records.states import LIVE_PUBLICATIONS, PublicationState
from pilotage.store.database.columns import is_state
from pilotage.store.tables.publications import PUBLICATION_COLUMNS, publication, publications
from pilotage.store.tables.reader import RecordReader
from pilotage.store.worlds.parts import Reading, WorldPart, part

MOST_DUE = 5000
"""Most publications of one catalogue in a pass."""

_p = publications.c
_WAITS = is_state(publications, PublicationState.WAITING)

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
# Step from catalogue to catalogue, skipping everything that waits for one.
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


@part("publications", "files")
def to_register(reading: Reading) -> Mapping[str, Any]:
    """Read due publications of each catalogue, those in progress, and failed ones of datasets to close."""
    reader = reading.reader
    due = [publication(row) for row in _due(reader, reading.world.time)]
    closing = sorted({one.task for one in due if not one.file})
    under_way = [publication(row) for row in reader.raw_rows(_UNDER_WAY)]
    failed = [lost for task in closing for lost in _failed(reader, task)]
    found = {one.id: one for one in (*due, *under_way, *failed)}
    return {
        "publications": tuple(found[id_] for id_ in sorted(found)),
        "files": reader.files({one.file for one in due if one.file}),
    }


def failed_of(task: int) -> WorldPart:
    """Read the failed publications of a task, at most ``MOST_DUE``."""
    return WorldPart(("publications",), lambda reading: {"publications": _failed(reading.reader, task)})


def _failed(reader: RecordReader, task: int) -> tuple[Publication, ...]:
    rows = reader.raw_rows(_OF_TASK, task=task, state=str(PublicationState.FAILED))
    return tuple(map(publication, rows))


def _due(reader: RecordReader, time: float) -> Iterator[Sequence[Any]]:
    # Read each catalogue separately: publications for a dead one must not fill the others' pass.
    for (name,) in reader.raw_rows(_CATALOGUES):
        yield from reader.raw_rows(_DUE, time=time, catalogue=name)
