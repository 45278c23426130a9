"""Publications: their table, and the world in which they are decided about."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Double, Index, String, Table, func, select

from pilotage.model.records.publications import Publication
from pilotage.model.records.states import PublicationState, TaskState
from pilotage.model.values.scopes import PERSONAL
from pilotage.store.database.columns import (
    Id,
    id_column,
    is_state,
    life_columns,
    metadata,
    partial_index,
    text_column,
)

from .tasks import is_live, tasks

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

_p, _t = publications.c, tasks.c
_WAITS = is_state(publications, PublicationState.WAITING)

partial_index("publications_due", _p.catalogue, _p.wake_at, _p.id, where=_WAITS)
partial_index("publications_under_way", _p.id, where=is_state(publications, PublicationState.PUBLISHING))

PUBLICATION_COLUMNS = (
    *(_p.id, _p.task, _p.dataset, _p.file, _p.state, _p.attempt, _p.created, _p.since, _p.asked, _p.wake_at),
    *(_p.error, _p.server),
)

# Not LIKE for the beginning: SQLite's ignores case.
_IS_EXTERNAL = _t.output_dataset.contains("~") & (
    func.substr(_t.output_dataset, 1, len(PERSONAL)) != PERSONAL
)
_HAS_PUBLISHED = select(_p.id).where(_p.task == _t.id).correlate(tasks).exists()

holds_dataset = is_live | (_IS_EXTERNAL & (is_state(tasks, TaskState.FINISHED) | _HAS_PUBLISHED))
"""Whether a task holds the name of its dataset. One of an external catalogue has no versions: a task that has
outputs there keeps it, or the files of two tasks would be mixed."""

_STATES = {str(state): state for state in PublicationState}


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
