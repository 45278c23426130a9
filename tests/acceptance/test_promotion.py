"""A PostgreSQL primary ends under load, and its replica is promoted: nothing accepted is lost or doubled."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import make_url

from tests import postgresql
from tests.postgresql import PostgresServer
from tests.waiting import wait_for

from .house import House

pytestmark = [pytest.mark.endurance, pytest.mark.acceptance]

JOBS = 60
FEDERATION = """
name: house
sites: [ {{ name: near, nucleus: true }} ]
storages: [ {{ name: disk, site: near, url: "file://{place}/disk", storage_min_free: 0 }} ]
queues:
  - name: nodes
    site: near
    storage: disk
    computing_element: {{ kind: process, max_pilots: 3, options: {{ directory: "{place}/pilots" }},
                         writable_paths: ["{place}/ledger"] }}
loops: {{ period: 1 }}
"""


@pytest.fixture
def servers(postgresql_server: object) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary, and its streaming replica, for which each commit waits."""
    with TemporaryDirectory(prefix="pilotage-promotion-") as folder, ExitStack() as stack:
        # The user of PostgreSQL's servers must be able to enter it.
        Path(folder).chmod(0o755)
        primary = postgresql.start(Path(folder) / "primary")
        stack.callback(primary.cleanup)
        replica = postgresql.replica(primary, Path(folder) / "replica")
        stack.callback(replica.cleanup)
        yield primary, replica


def test_a_promotion_under_load_loses_and_doubles_nothing(
    tmp_path: Path, servers: tuple[PostgresServer, PostgresServer], free_port: int
) -> None:
    for name in ("home", "disk", "ledger"):
        (tmp_path / name).mkdir()
    file = tmp_path / "federation.yaml"
    file.write_text(FEDERATION.format(place=tmp_path))
    # An address with both, of which clients take the one that can be written.
    hosts = "&".join(f"host={make_url(one.get_uri()).query['host']}:5432" for one in servers)
    url = f"postgresql+psycopg://postgres@/postgres?{hosts}&target_session_attrs=read-write"
    house = House(tmp_path / "home", url, free_port, file, {"all": (str(file),)})
    # Each run of a payload leaves a file with the number of its job.
    command = f"sleep 0.5; mktemp {tmp_path}/ledger/$PILOTAGE_INDEX.XXXXXX; echo done > out.txt"
    task = {"name": "load", "command": ["sh", "-c", command], "jobs": JOBS, "scouts": 0}
    try:
        house.start("all")
        house.call("POST", "/tasks", {"tasks": [task | {"outputs": ["out.txt"], "nucleus": "near"}]})
        wait_for(lambda: len(list((tmp_path / "ledger").iterdir())) > 5, "some runs")
        accepted = []
        for number in range(5):
            answer = house.call("POST", "/tasks", {"tasks": [task | {"name": f"t-{number}", "jobs": 1}]})
            accepted.append(answer["tasks"][0]["id"])
        primary, replica = servers
        postgresql.kill(primary)
        begun = time.monotonic()
        postgresql.promote(replica)
        house.call("POST", "/tasks", {"tasks": [task | {"name": "later", "jobs": 1}]})
        print(f"a task was accepted {time.monotonic() - begun:.1f} s after the primary ended")
        wait_for(lambda: _are_finished(house, 7), "the end of all tasks")
        assert {one["id"] for one in house.call("GET", "/tasks")["tasks"]} >= set(accepted)
        runs = [path.name.partition(".")[0] for path in (tmp_path / "ledger").iterdir()]
        assert len(runs) == JOBS + 6, "each job ran once"
        assert "Traceback" not in (house.home / "all.log").read_text()
    finally:
        house.stop()
        print(house.last_words())


def _are_finished(house: House, count: int) -> bool:
    found = house.call("GET", "/tasks")["tasks"]
    assert not [one for one in found if one["state"] in ("failed", "cancelled")]
    return [one["state"] for one in found] == ["finished"] * count
