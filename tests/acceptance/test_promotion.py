"""A PostgreSQL primary ends under load, and its replica is promoted: nothing accepted is lost or doubled."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import postgresql
from tests.conftest import locked_port
from tests.waiting import wait_for

from .house import House

pytestmark = [pytest.mark.endurance, pytest.mark.acceptance]

JOBS = 60
FEDERATION = """
name: house
sites: [ {{ name: near, nucleus: true }} ]
storages: [ {{ name: disk, site: near, url: "file://{place}/disk" }} ]
queues:
  - name: nodes
    site: near
    storage: disk
    computing_element: {{ kind: process, max_pilots: 3, options: {{ directory: "{place}/pilots" }},
                         writable_paths: ["{place}/ledger"] }}
loops: {{ period: 1 }}
"""
SETTINGS = "wal_level=replica\nmax_wal_senders=8\nhot_standby=on\nlisten_addresses='127.0.0.1'\n"
USER = "pgserver"
"""The account of the database servers in tests: PostgreSQL refuses to run as root."""


@dataclass
class Cluster:
    """A primary and a streaming replica, each with its port."""

    place: Path
    ports: tuple[int, int]
    names: tuple[str, str] = ("primary", "replica")
    running: set[int] = field(default_factory=set)

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of PostgreSQL as its account."""
        command = [str(postgresql.PROGRAMS / program), *arguments]
        if _is_root():
            command = ["runuser", "-u", USER, "--", *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/tmp", timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def data(self, number: int) -> str:
        return str(self.place / self.names[number])

    def start(self, number: int) -> None:
        log = f"{self.data(number)}.log"
        options = f"-p {self.ports[number]} -k {self.place}"
        # -l keeps its output away from the pipe, which would else stay open.
        self.run("pg_ctl", "-D", self.data(number), "-w", "-t", "100", "-o", options, "-l", log, "start")
        self.running.add(number)

    def stop(self, number: int) -> None:
        """End a server at once, as a loss of power does."""
        if number in self.running:
            self.run("pg_ctl", "-D", self.data(number), "-m", "immediate", "stop")
            self.running.discard(number)

    def sql(self, number: int, text: str, database: str = "postgres") -> str:
        where = ("-h", "127.0.0.1", "-p", str(self.ports[number]), "-U", USER, "-d", database)
        return self.run("psql", *where, "-At", "-c", text)

    @property
    def url(self) -> str:
        """An address with both, of which clients take the one that can be written."""
        hosts = "&".join(f"host=127.0.0.1:{port}" for port in self.ports)
        return f"postgresql+psycopg://{USER}@/pilotage?{hosts}&target_session_attrs=read-write"


def _is_root() -> bool:
    return os.geteuid() == 0


@pytest.fixture
def cluster(postgresql_server: object) -> Iterator[Cluster]:
    place = Path("/tmp") / f"pilotage-promotion-{socket.gethostname()}-{time.time_ns():x}"
    with locked_port() as first, locked_port() as second:
        place.mkdir(mode=0o777)
        if _is_root():
            shutil.chown(place, USER)
        made = Cluster(place, (first, second))
        made.run("initdb", "-D", made.data(0), "-U", USER, "-A", "trust", "--no-sync")
        with (place / "primary" / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS)
        try:
            made.start(0)
            made.sql(0, "CREATE DATABASE pilotage")
            where = ("-h", "127.0.0.1", "-p", str(first), "-U", USER)
            made.run("pg_basebackup", *where, "-D", made.data(1), "-R", "-c", "fast", "--no-sync")
            made.start(1)
            made.sql(0, "ALTER SYSTEM SET synchronous_standby_names = '*'")
            made.sql(0, "SELECT pg_reload_conf()")
            yield made
        finally:
            for number in (0, 1):
                made.stop(number)
            shutil.rmtree(place)


def test_a_promotion_under_load_loses_and_doubles_nothing(
    tmp_path: Path, cluster: Cluster, free_port: int
) -> None:
    for name in ("home", "disk", "ledger"):
        (tmp_path / name).mkdir()
    file = tmp_path / "federation.yaml"
    file.write_text(FEDERATION.format(place=tmp_path))
    house = House(tmp_path / "home", cluster.url, free_port, file, {"all": (str(file),)})
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
        cluster.stop(0)
        begun = time.monotonic()
        # No replica is left that a commit could wait for.
        cluster.run("pg_ctl", "-D", cluster.data(1), "-w", "promote")
        cluster.sql(1, "ALTER SYSTEM RESET synchronous_standby_names")
        cluster.sql(1, "SELECT pg_reload_conf()")
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
