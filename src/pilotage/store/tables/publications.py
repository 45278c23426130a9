"""Publications: their table, and the world in which they are decided about."""

from sqlalchemy import Column, Index, String, func, select

from pilotage.model.records.publications import Publication
from pilotage.model.records.states import PublicationState, TaskState
from pilotage.model.values.scopes import PERSONAL
from pilotage.store.database.columns import is_state, partial_index
from pilotage.store.database.record_columns import maker, read_columns, record_table
from pilotage.store.tables.tasks import is_live, tasks

publications = record_table(
    "publications",
    Publication,
    Column("catalogue", String, nullable=False),
    Index("publications_by_task", "task", "state", "id"),
    Index("publications_by_file", "file"),
    Index("publications_by_state", "state", "since", "id"),
)

_p, _t = publications.c, tasks.c
_WAITS = is_state(publications, PublicationState.WAITING)

partial_index("publications_due", _p.catalogue, _p.wake_at, _p.id, where=_WAITS)
partial_index("publications_under_way", _p.id, where=is_state(publications, PublicationState.PUBLISHING))

PUBLICATION_COLUMNS = read_columns(publications, Publication)
publication = maker(Publication)
"""Makes a publication of a row that begins with ``PUBLICATION_COLUMNS``."""

# Not LIKE for the beginning: SQLite's ignores case.
_IS_EXTERNAL = _t.output_dataset.contains("~") & (
    func.substr(_t.output_dataset, 1, len(PERSONAL)) != PERSONAL
)
_HAS_PUBLISHED = select(_p.id).where(_p.task == _t.id).correlate(tasks).exists()

holds_dataset = is_live | (_IS_EXTERNAL & (is_state(tasks, TaskState.FINISHED) | _HAS_PUBLISHED))
"""Whether a task holds the name of its dataset. One of an external catalogue has no versions: a task that has
outputs there keeps it, or the files of two tasks would be mixed."""
