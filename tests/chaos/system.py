"""The system under test: PostgreSQL, two servers with all loops, four sites with pilots, proxies between.

Where sshd and Slurm are installed, one site is a Slurm behind SSH: pilots call home through a tunnel, and its
storage is reached by SFTP. Where XRootD is installed, the storage of another is an XRootD server.
"""

import contextlib
import json
import math
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
from sqlalchemy import Engine, create_engine, make_url, text

from tests import postgresql
from tests.acceptance.house import House
from tests.computing import standin
from tests.conftest import locked_port
from tests.movers.xrootd import XRootD, xrootd
from tests.sites import login, slurm
from tests.waiting import PATIENCE

from .batch import SUBMISSION, BatchSystem
from .clocks import FalseClock
from .disks import SmallDisk
from .proxy import Proxy
from .work import Work, write_inputs

NAME = "chaos"
SITES = ("north", "east", "west", "south")

HEARTBEAT = 6.0
"""Seconds of silence after which a pilot counts as lost."""

TIMEOUTS = (HEARTBEAT, 10.0, 20.0, 30.0)
"""The time-outs that a freeze may pass, in s: silent pilots; PostgreSQL's for writers and for locks (see
``store/database/engine.py``); a pilot's call."""

MAX_JOBS, MAX_SUBMITTING, MAX_PILOTS, LIVE_JOBS = 8, 6, 2, 30
DELIVERIES, MOST_EMERGENCY = 6, 1
TRANSFER_SLOTS = {"north-disk": 4, "east-disk": 2, "west-disk": 2, "south-disk": 2}
LINK_SLOTS = 2
"""The limits of sites, queues, the one user, all deliveries, storages and links."""

RULES: dict[str, Any] = {
    "loops": {"period": 0.5, "heartbeat": 0.5, "pilot_idle": 5, "pilot_idle_most": 10},
    "timeouts": {
        "heartbeat": HEARTBEAT,
        "sent": 6,
        "starting": 30,
        # Longer than outputs wait on a slow machine: these payloads have ended well.
        "holding": 300,
        "transferring": 300,
        "pilot_created": 2 * SUBMISSION,
        "assigned": 60,
        "pending": 2,
    },
    # A Slurm whose controller was killed may forget pilots that it took.
    "director": {"period": 0.5, "failing_pause": 0.5, "missing_pilot_time": 10},
    "brokerage": {"storage_min_free": 0, "pending_time": 2},
    "guard": {"in_a_row": 1000, "same": 1000},
    "quotas": {"jobs_by_user": LIVE_JOBS},
    "staging": {
        "delivery_timeout": 5,
        "retry_delay": 0.2,
        "max_attempts": 1000,
        "storage_rest": 1,
        "delivery_slots": DELIVERIES,
        "max_emergency": MOST_EMERGENCY,
        "files_per_slot": 1,
    },
}
"""The times, limits and other rules of the federation."""

SMALL_DISKS = ("storages/north", "pilots")
"""Folders on disks of their own, which can be full: the storage of the nucleus, and pilots' directories."""

PILOTS_ADDRESS = "127.0.0.2"
"""The address of the proxies through which pilots call; servers listen on the same ports of 127.0.0.1."""


SLURM_COMMANDS = ("sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct")


@dataclass(frozen=True)
class Real:
    """What takes part if it is installed: a Slurm behind a login node as west, XRootD as the disk of east."""

    slurm: slurm.Slurm | None
    login: login.LoginNode | None
    xrootd: XRootD | None

    def storage(self, place: Path, site: str) -> dict[str, Any]:
        """Return the address of a site's storage, and its options."""
        if site == "east" and self.xrootd:
            return {"url": self.xrootd.url}
        folder = f"{place}/storages/{site}"
        if site == "west" and self.login:
            known = {"ssh_config": self.ssh["ssh_config"], "known_hosts": f"{self.login.place}/known_hosts"}
            return {"url": f"sftp://{self.ssh['ssh']}{folder}", "options": known}
        return {"url": f"file://{folder}"}

    @property
    def ssh(self) -> dict[str, str]:
        """Return the options that lead to the login node."""
        return self.login.options if self.login else {}


def federation(place: Path, version: int, real: Real) -> dict[str, Any]:
    """Return the federation. Versions differ in numbers that lose no work."""
    return {
        "name": NAME,
        "sites": [
            {
                "name": site,
                "nucleus": site == "north",
                "max_jobs": MAX_JOBS,
                "max_submitting_jobs": MAX_SUBMITTING,
            }
            for site in SITES
        ],
        "storages": [
            {
                "name": f"{site}-disk",
                "site": site,
                **real.storage(place, site),
                "transfer_slots": TRANSFER_SLOTS[f"{site}-disk"],
            }
            for site in SITES
        ],
        "queues": [_queue(place, site, real) for site in SITES],
        "links": [
            {"source": a, "destination": b, "closeness": 1 + version % 5, "transfer_slots": LINK_SLOTS}
            for a in SITES
            for b in SITES
            if a != b
        ],
        **RULES,
    }


def _queue(place: Path, site: str, real: Real) -> dict[str, Any]:
    kind = "process"
    options: dict[str, Any] = {"directory": str(place / "pilots")}
    if site == "south":
        kind = "pbs"
        options |= {"commands": str(place / "pbs" / "commands"), "spool": str(place / "spool-south")}
    elif site == "west" and real.slurm:
        kind = "slurm"
        options |= {"commands": str(place / "slurm" / "commands"), "partition": "main"}
        options |= {"spool": str(place / "spool-west")}
        if real.login:
            options |= {**real.ssh, "tunnel": True, "relay_host": "127.0.0.1"}
    element = {
        "kind": kind,
        "max_pilots": MAX_PILOTS,
        "pilot_slots": 2,
        "writable_paths": [str(place / "ledger")],
        # The batch system starts pilots with a Python of its own.
        "readable_paths": sorted({sys.prefix, sys.base_prefix}),
        "options": options,
    }
    return {"name": f"{site}-queue", "site": site, "storage": f"{site}-disk", "computing_element": element}


class System:
    """Everything that a storm strikes."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self.place = place
        self.storages = place / "storages"
        for folder in ("ledger", "pilots", *(f"storages/{site}" for site in SITES)):
            (place / folder).mkdir(parents=True)
        self.disks = {folder: disk for folder in SMALL_DISKS if (disk := SmallDisk.mounted(place / folder))}
        for disk in self.disks.values():
            stack.callback(disk.unmount)
        write_inputs(self.storages)
        bed = None if slurm.lacking() else stack.enter_context(slurm.slurm(kill_wait=30))
        self.batch = _batch_systems(place, bed)
        self.real = Real(
            slurm=bed,
            login=stack.enter_context(login.login_node(bed.environment))
            if bed and not login.lacking()
            else None,
            xrootd=stack.enter_context(xrootd(self.storages / "east", place / "xrootd"))
            if shutil.which("xrootd")
            else None,
        )
        self.clocks = [FalseClock(place / f"clock-{at}") for at in range(2)]
        self._stack = stack
        self.database = postgresql.start(place / "postgresql-0")
        self.replica = postgresql.replica(self.database, place / "postgresql-1")
        for server in (self.database, self.replica):
            stack.callback(server.cleanup)
        database_port, self._quiet_port, *ports = (stack.enter_context(locked_port()) for _ in range(4))
        self.database_proxy = Proxy("127.0.0.1", database_port, self._socket)
        # The observer's way moves with the database, too, and no fault of the network disturbs it.
        quiet = Proxy("127.0.0.1", self._quiet_port, self._socket)
        stack.callback(quiet.close)
        self.api_proxies = [Proxy(PILOTS_ADDRESS, port, partial(int, port)) for port in ports]
        for proxy in (self.database_proxy, *self.api_proxies):
            stack.callback(proxy.close)
        store = f"postgresql+psycopg://postgres@127.0.0.1:{database_port}/postgres"
        self.houses = [self._house(at, store, ports) for at in range(2)]
        self.victims = threading.Lock()
        self.servers_turn, self.database_turn = threading.Lock(), threading.Lock()
        self.together_until = -math.inf
        """When the latest fault of all servers ended, by the monotonic clock."""
        self.slurm_turn, self.login_turn = threading.Lock(), threading.Lock()
        self.is_kept = False
        self.away: list[str] = []
        self.ended_codes: list[int] = []
        self._replicas, self._replaced = 1, 0
        self._version, self._lock = 0, threading.Lock()

    def _house(self, at: int, store: str, ports: Sequence[int]) -> House:
        home = self.place / f"home-{at}"
        home.mkdir()
        file = self.place / "federation.yaml"
        file.write_text(json.dumps(federation(self.place, 0, self.real)))
        here, other = (f"http://{PILOTS_ADDRESS}:{ports[number]}" for number in (at, 1 - at))
        address = ("--host", "127.0.0.1", "--port", str(ports[at]))
        parts = {"server": (str(file), *address)}
        more = dict(self.real.slurm.environment) if self.real.slurm else {}
        environment = {**more, "PILOTAGE_MORE_URLS": other, **self.clocks[at].environment()}
        # Pilots behind the tunnel find the address in their spool.
        spools = (self.place / "spool-west",) if at == 0 else ()
        return House(home, store, ports[at], file, parts, here, environment, spools)

    def _socket(self) -> str:
        host = make_url(self.database.get_uri()).query["host"]
        return f"{host}/.s.PGSQL.5432"

    def promote(self) -> None:
        """Kill the database, let its replica take over, and give it a new replica."""
        postgresql.kill(self.database)
        postgresql.promote(self.replica)
        self.database = self.replica
        self.database_proxy.drop()
        self._replicas += 1
        self.replica = postgresql.replica(self.database, self.place / f"postgresql-{self._replicas}")
        self._stack.callback(self.replica.cleanup)

    @property
    def quiet_store(self) -> str:
        """Return a way into the database that no fault of the network disturbs."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self._quiet_port}/postgres"

    def engine(self) -> Engine:
        """Return an engine that goes this way."""
        return create_engine(self.quiet_store, isolation_level="REPEATABLE READ", pool_pre_ping=True)

    def empty_database(self) -> None:
        """Put an empty database in the place of the store, which keeps its data under another name."""
        self._replaced += 1
        url = make_url(self.quiet_store).set(database="template1")
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in (
                "ALTER DATABASE postgres ALLOW_CONNECTIONS false",
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = 'postgres'",
                f"ALTER DATABASE postgres RENAME TO before_{self._replaced}",
                "CREATE DATABASE postgres TEMPLATE template0",
            ):
                connection.execute(text(statement))
        engine.dispose()

    def start(self) -> None:
        """Start both servers, and wait until they answer."""
        for house in self.houses:
            house.start("server")
            house.call("GET", "/health/ready")

    def call(self, method: str, path: str, body: object = None, key: str = "") -> Any:
        """Ask one server after the other, until one answers. Raises AssertionError when none does."""
        end, at, fault = time.monotonic() + PATIENCE, 0, ""
        while time.monotonic() < end:
            try:
                answer = self.houses[at % 2].ask(method, path, body, key, timeout=5)
                # A restored store has new tokens.
                if answer.status_code < 500 and answer.status_code not in (401, 429):
                    assert answer.is_success, f"{method} {path}: {answer.text[:2000]}"
                    return answer.json() if answer.content else None
                fault = answer.text
            except (httpx.TransportError, FileNotFoundError) as error:
                fault = repr(error)
            at += 1
            time.sleep(0.1)
        raise AssertionError(f"no server answers {method} {path}: {fault}")

    def submit(self, work: Work) -> list[int]:
        """Submit work until it is accepted; a repeated request is the same submission."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                answer = self.call("POST", work.path, work.document, work.key)
                break
            except AssertionError as refused:
                # The storage of an input is away: its user tries again.
                if not re.search("there is no folder|scanning ", str(refused)) or time.monotonic() > end:
                    raise
                time.sleep(1)
        assert not answer["refused"], answer
        return [task["id"] for task in answer["tasks"]]

    def reload(self) -> None:
        """Put another version of the federation in force."""
        with self._lock:
            self._version += 1
            self.call("PUT", "/federation", federation(self.place, self._version, self.real))

    def agents(self) -> list[psutil.Process]:
        """Return the running pilots."""
        return [agent for house in self.houses for agent in house.agents()]

    def last_words(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(house.last_words() for house in self.houses)


def _batch_systems(place: Path, bed: slurm.Slurm | None) -> dict[str, BatchSystem]:
    """Return those that can be wrong, by site."""
    real = standin.install(place / "pbs" / "real")
    one_by_one = f"flock -o {place}/pbs/lock {real}"
    pbs = {name: f"{one_by_one}/{name}" for name in ("qsub", "qstat", "qdel")}
    modes = ("away", "hanging", "forgetful", "ending", "losing")
    systems = {"south": BatchSystem(place / "pbs", pbs, modes)}
    if bed:
        paths = {name: shutil.which(name, path=bed.environment["PATH"]) for name in SLURM_COMMANDS}
        commands = {name: path for name, path in paths.items() if path}
        systems["west"] = BatchSystem(place / "slurm", commands, ("away", "hanging", "losing"))
    return systems


@contextlib.contextmanager
def running() -> Iterator[System]:
    """Run a system in a directory of its own, which is removed if all went well."""
    # The user of PostgreSQL's server must be able to enter it.
    place = Path(tempfile.mkdtemp(prefix="pilotage-chaos-"))
    place.chmod(0o755)
    with ExitStack() as stack:
        system = System(place, stack)
        for house in system.houses:
            stack.callback(house.stop)
        system.start()
        yield system
    if not system.is_kept:
        shutil.rmtree(place, ignore_errors=True)
