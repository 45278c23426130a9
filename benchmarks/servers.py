"""One, two and four servers on one PostgreSQL: lives of jobs that clients take, begin and end over HTTP."""

import json
import multiprocessing
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from sqlalchemy import create_engine, text

from pilotage.demo import service
from pilotage.model.values.identity import Credential
from pilotage.store import Store

from . import house, matching

COUNTS = (1, 2, 4)
CLIENTS = 4
PILOTS = 25
"""Pilots of a client. They call in turn."""
SLOTS = 8
JOBS = 60_000
WARMING, SECONDS = 4.0, 12.0
EVERY = 0.5
"""Seconds between two submissions of 200 jobs."""
LOOPS = "split,broker,rebind,lift,stage,finish,watch,stop,chain"

_SAMPLE = text("""
SELECT coalesce(wait_event_type, '-') || ':' || coalesce(wait_event, '-') FROM pg_stat_activity
WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()""")


def figures() -> dict[str, float]:
    """``servers_N_lives_per_s``; processor time of a job in ms: servers and database; waits for locks.

    ``servers_N_lock_waits`` is the part of samples of busy sessions that waited for a lock.
    """
    figures: dict[str, float] = {}
    for number in COUNTS:
        run = measure(number)
        figures |= {
            f"servers_{number}_lives_per_s": run.jobs / SECONDS,
            f"servers_{number}_ms_a_job": 1000 * (run.servers + run.database) / max(1, run.jobs),
            f"servers_{number}_database_ms_a_job": 1000 * run.database / max(1, run.jobs),
            f"servers_{number}_lock_waits": run.locked / max(1, run.samples),
        }
    return figures


@dataclass(frozen=True)
class Run:
    """What one run measured: finished jobs, processor time in s, samples of busy sessions and of waits."""

    jobs: int
    servers: float
    database: float
    samples: int
    locked: int
    waits: Counter[str]


@contextmanager
def _house(server_count: int) -> Iterator[tuple[str, list[service.DemoServer], list[str]]]:
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        with house.store("postgresql", place) as url, ExitStack() as opened:
            ids = matching.prepare(url, 200, JOBS, pilots=CLIENTS * PILOTS)
            store = Store.open(url)
            pilot = partial(Credential, role="pilot", identity=matching.OWNER)
            tokens = [store.tokens.create(pilot(pilot=id_)) for id_ in ids]
            store.close()
            homes = (place / f"home{number}" for number in range(server_count))
            servers = [
                opened.enter_context(service.running(None, home, None, url, "--only", LOOPS))
                for home in homes
            ]
            yield url, servers, tokens
    finally:
        shutil.rmtree(place, ignore_errors=True)


def measure(server_count: int) -> Run:
    """Run the lives of jobs at this number of servers."""
    resource_tracker.ensure_running()
    with _house(server_count) as (url, servers, tokens):
        store = Store.open(url)
        context = multiprocessing.get_context("spawn")
        ended = context.Event()
        clients = [
            context.Process(
                target=_work, args=(servers[number % server_count].url, tokens[number::CLIENTS], ended)
            )
            for number in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        submitter = threading.Thread(target=_submit, args=(servers, ended))
        submitter.start()
        while _finished(store) < 2000:
            servers[0].check()
            time.sleep(0.2)
        time.sleep(WARMING)
        try:
            return _sampled(store, url, servers)
        finally:
            ended.set()
            submitter.join()
            for client in clients:
                client.join()
            store.close()


def _sampled(store: Store, url: str, servers: list[service.DemoServer]) -> Run:
    waits: Counter[str] = Counter()
    stop = threading.Event()
    engine = create_engine(url, isolation_level="AUTOCOMMIT")

    def sample() -> None:
        with engine.connect() as connection:
            while not stop.wait(0.02):
                waits.update(connection.execute(_SAMPLE).scalars())

    sampler = threading.Thread(target=sample)
    sampler.start()
    database = _database_processes()
    before = _finished(store), sum(_seconds(server.pid) for server in servers), _sum(database)
    time.sleep(SECONDS)
    database |= _database_processes()
    after = _finished(store), sum(_seconds(server.pid) for server in servers), _sum(database)
    stop.set()
    sampler.join()
    engine.dispose()
    samples = sum(waits.values()) - waits["Client:ClientRead"]
    locked = sum(number for wait, number in waits.items() if wait.startswith("Lock:"))
    return Run(after[0] - before[0], after[1] - before[1], after[2] - before[2], samples, locked, waits)


def _finished(store: Store) -> int:
    with store.database.engine.connect() as connection:
        return int(
            connection.execute(text("SELECT count(*) FROM jobs WHERE state = 'finished'")).scalar_one()
        )


def _seconds(pid: int) -> float:
    process = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:2]) for each in (process, *process.children(recursive=True)))


def _database_processes() -> set[psutil.Process]:
    return {process for process in psutil.process_iter() if process.name() == "postgres"}


def _sum(processes: set[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        try:
            total += sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return total


def _submit(servers: list[service.DemoServer], ended: Event) -> None:
    """Submit a task to one server after the other, so that the loops have work."""
    numbers = count(1)
    while not ended.wait(EVERY):
        number = next(numbers)
        servers[number % len(servers)].post(
            "/tasks", {"tasks": [{"name": f"new-{number}", "jobs": 200, "scouts": 0}]}
        )


def _work(server: str, tokens: list[str], ended: Event) -> None:
    address = urlsplit(server)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=120)
    offer = {"cores": SLOTS, "memory": 0, "walltime": 1e6, "max_jobs": SLOTS, "containment": "bubblewrap"}

    def call(token: str, path: str, body: object) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", f"/api/v1/pilot/{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        document = json.loads(answer.read())
        if answer.status in {429, 503}:
            time.sleep(float(answer.headers.get("Retry-After", 1)))
            return {"works": []}
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {document}")
        return document

    while not ended.is_set():
        for token in tokens:
            works = call(token, "match", offer)["works"]
            pairs = [(job["job"], job["attempt"]) for work in works for job in work["jobs"]]
            for state in ("running", "done") if pairs else ():
                news = [
                    {"job": job, "attempt": attempt, "state": state, "wall_seconds": 1.0, "cpu_seconds": 1.0}
                    for job, attempt in pairs
                ]
                call(token, "report", {"holding": pairs, "reports": news})
