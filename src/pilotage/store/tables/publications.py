"""Publications: their table, and the world in which they are decided about."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Double, Index, String, Table

from pilotage.model.records.publications import Publication
from pilotage.model.records.states import PublicationState
from pilotage.store.database.columns import (
    Id,
    id_column,
    is_state,
    life_columns,
    metadata,
    partial_index,
    text_column,
)

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
