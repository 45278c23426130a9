"""Alembic runs this. It migrates over the store's connection, inside the store's transaction."""

from alembic import context

from pilotage.store.migrations import functions
from pilotage.store.records import with_all_indexes

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=with_all_indexes(),
    render_as_batch=True,
    transactional_ddl=False,
)
context.run_migrations()
functions.make(connection)
