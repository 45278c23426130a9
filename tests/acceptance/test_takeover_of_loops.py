"""A frozen server that holds every lease, and the only writer's place: each loop goes on at another one."""

import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pilotage.flow.steps import STEPS
from pilotage.model.records.servers import ServerProcess
from pilotage.store import ARCHIVE, Store
from pilotage.store.servers import iterations
from tests.waiting import PATIENCE, wait_for

from .house import House

pytestmark = [pytest.mark.endurance, pytest.mark.acceptance, pytest.mark.postgresql]

FEDERATION = """
name: house
sites: [ {{ name: near, nucleus: true }} ]
storages: [ {{ name: disk, site: near, url: "file://{place}/disk", storage_min_free: 0 }} ]
queues:
  - name: queue
    site: near
    storage: disk
    computing_element: {{ max_pilots: 1, options: {{ directory: "{place}/pilots" }} }}
loops: {{ period: 1 }}
"""


@pytest.fixture
def house(tmp_path: Path, postgresql_url: str, free_port: int) -> Iterator[House]:
    """Two servers with every loop, of which the first has the API."""
    for name in ("home", "disk"):
        (tmp_path / name).mkdir()
    file = tmp_path / "federation.yaml"
    file.write_text(FEDERATION.format(place=tmp_path))
    made = House(
        tmp_path / "home", postgresql_url, free_port, file, {"first": (str(file),), "second": ("--no-api",)}
    )
    made.environment = {"PILOTAGE_ARCHIVE": str(tmp_path / "archive")}
    try:
        made.start("first")
        made.call("GET", "/federation")
        made.start("second")
        yield made
    finally:
        made.running["first"].send_signal(signal.SIGCONT)
        made.stop()
        print(made.last_words())


def live(store: Store) -> list[ServerProcess]:
    return [one for one in store.servers.everything() if one.state == "live"]


@contextmanager
def writing(url: str, server: str) -> Iterator[None]:
    """Be the only writer in a session of a server, until another server ends that session."""
    begun, ended = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        begun.set()
        ended.wait(PATIENCE)

    def write(store: Store) -> None:
        # Its session is gone when it goes on: nothing of this transaction happens.
        with pytest.raises(DBAPIError):
            store.database.write(hold, tries=1)

    with closing(Store.open(url, server=server)) as store:
        thread = threading.Thread(target=write, args=(store,))
        thread.start()
        assert begun.wait(PATIENCE)
        try:
            yield
        finally:
            ended.set()
            thread.join()


def make_due(connection: Connection, sole: Iterable[str]) -> None:
    for work in sole:
        iterations.note(connection, work, 0.0)


def passes(store: Store, server: str, since: float) -> dict[str, float]:
    """The loops of a server that ended a pass after a time, with the s from then until its end."""
    (found,) = [one for one in store.servers.everything() if one.name == server]
    return {
        name: one.ended - since
        for name, one in found.report.passes.items()
        if one.ended > since and not one.error
    }


def test_every_loop_goes_on_elsewhere_when_the_holder_of_all_leases_freezes(
    house: House, postgresql_url: str
) -> None:
    with closing(Store.open(postgresql_url)) as store:
        first, second = wait_for(lambda: (found := live(store))[1:] and found, "two servers")
        loops = set(first.loops)
        sole = loops - {step.name for step in STEPS}
        assert loops == set(second.loops)
        assert sole >= {ARCHIVE, "forget-events", "note-breakers"}
        wait_for(lambda: loops - sole <= passes(store, second.name, 0).keys(), "a pass of each loop")
        house.running["first"].send_signal(signal.SIGSTOP)
        store.database.write(lambda connection: make_due(connection, sole))
        for work in sole:
            store.leases.take(work, first.name, store.clock(), lambda _: True)
        with writing(postgresql_url, first.name):
            frozen, at = time.monotonic(), store.clock()
            wait_for(lambda: len(live(store)) == 1, "the end of its lease")
            print(f"{'silent':16} {time.monotonic() - frozen:5.1f} s")
            wait_for(lambda: passes(store, second.name, at).keys() >= loops, "a pass of each loop", 60)
        found = passes(store, second.name, at)
        for name, seconds in sorted(found.items(), key=lambda item: item[1]):
            print(f"{name:16} {seconds:5.1f} s")
        assert not set(store.leases.holders().values()) & {first.name}
