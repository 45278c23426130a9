"""Whole lives of jobs, matches and small files beside the programs that do the same, in turns.

A peer that is not installed is left out: ``procrastinate`` in the environment that ``PROCRASTINATE`` names
(a Python with ``procrastinate`` and ``psycopg[binary,pool]``), ``aria2c`` and ``nginx`` from Debian.
"""

import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median

import psycopg
from tests.movers.servers import nginx

from . import house, lifecycle, matching, staging

ROUNDS = 2
"""Pairs of turns of each figure."""

JOBS = 4_000
SECONDS = 4.0
PYTHON = os.environ.get("PROCRASTINATE", "")


def figures() -> dict[str, float]:
    """``peers_KIND_ratio``: our rate by the other's, the median of the pairs; and both rates."""
    kinds: list[tuple[str, Callable[[], float], Callable[[], float]]] = [
        ("match_skip_locked", _matches, _skip_locked),
        ("starts_python", _starts, lambda: 1 / _seconds([sys.executable, "-c", ""])),
    ]
    if PYTHON:
        kinds.append(("lives_procrastinate", _lives, _procrastinate))
    if shutil.which("aria2c") and shutil.which("nginx"):
        kinds.append(("files_aria2c", lambda: staging.figures()["small_files_per_s"], _aria2c))
    if shutil.which("kubectl"):
        kinds.append(("starts_kubectl", _starts, lambda: 1 / _seconds(["kubectl", "version", "--client"])))
    figures: dict[str, float] = {}
    for name, ours, other in kinds:
        pairs = [_pair(ours, other, turn % 2 == 0) for turn in range(ROUNDS)]
        figures[f"peers_{name}_ratio"] = median(first / second for first, second in pairs)
        figures[f"peers_{name}_ours_per_s"] = median(first for first, _ in pairs)
        figures[f"peers_{name}_other_per_s"] = median(second for _, second in pairs)
    return figures


def _pair(ours: Callable[[], float], other: Callable[[], float], ours_first: bool) -> tuple[float, float]:
    """Measure both, and return our rate and the other's."""
    if ours_first:
        return ours(), other()
    rate = other()
    return ours(), rate


def _matches() -> float:
    """Matches a second of four processes on PostgreSQL, with 200 task queues."""
    with matching._side("postgresql", 200) as side:
        seconds = list(chain.from_iterable(chain.from_iterable(matching._run(matching._ask, side))))
    return matching.CLIENTS * len(seconds) / sum(seconds)


def _skip_locked() -> float:
    """Rows a second that four processes take from a bare table, where each commit waits for the disk."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        with house.store("postgresql", place) as url:
            address = url.replace("+psycopg", "")
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("CREATE TABLE work (id bigserial PRIMARY KEY, tq int, state int)")
                connection.execute(
                    "INSERT INTO work (tq, state) SELECT i % 200, 0 FROM generate_series(1, 50000) i"
                )
                connection.execute("CREATE INDEX ON work (tq, id) WHERE state = 0")
            context = multiprocessing.get_context("spawn")
            barrier, answers = context.Barrier(matching.CLIENTS), context.SimpleQueue()
            clients = [
                context.Process(target=_take_rows, args=(barrier, answers, address, seed))
                for seed in range(matching.CLIENTS)
            ]
            for client in clients:
                client.start()
            rows: int = sum(answers.get() for _ in clients)
            for client in clients:
                client.join()
            return float(rows) / SECONDS
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _take_rows(
    barrier: Barrier, answers: "multiprocessing.SimpleQueue[int]", address: str, seed: int
) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        barrier.wait()
        end, rows = time.perf_counter() + SECONDS, 0
        while time.perf_counter() < end:
            connection.execute(
                "UPDATE work SET state = 1 WHERE id = (SELECT id FROM work WHERE tq = %s AND state = 0"
                " ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
                ((seed * 50 + rows) % 200,),
            )
            rows += 1
        answers.put(rows)


def _lives() -> float:
    """Whole lives of jobs a second: one server on PostgreSQL and one pilot."""
    with house.running("postgresql") as server:
        lifecycle._warm(server)
        return lifecycle._whole(server, JOBS)


def _procrastinate() -> float:
    """Jobs a second from the first submission to the end of the last, by one worker of procrastinate."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        (place / "work.py").write_text(_WORK)
        with house.store("postgresql", place) as url:
            environment = os.environ | {"ADDRESS": url.replace("+psycopg", ""), "PYTHONPATH": str(place)}
            words = [PYTHON, "-m", "work", str(JOBS)]
            done = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE)
            return float(done.stdout)
    finally:
        shutil.rmtree(place, ignore_errors=True)


_WORK = """
import asyncio, os, sys, time
import procrastinate

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["ADDRESS"]))
ended = 0

@app.task
async def empty():
    global ended
    ended += 1

async def rate(jobs):
    global ended
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(app.run_worker_async(concurrency=16, install_signal_handlers=False))
        for count in (jobs // 4, jobs):
            ended, begun = 0, time.monotonic()
            await empty.batch_defer_async(*({} for _ in range(count)))
            while ended < count:
                await asyncio.sleep(0.02)
            seconds = time.monotonic() - begun
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        return jobs / seconds

if __name__ == "__main__":
    print(asyncio.run(rate(int(sys.argv[1]))))
"""


def _aria2c() -> float:
    """Files a second that aria2c brings from the same web server and checks."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        inputs = [staging._input(place, number) for number in range(staging.FILES)]
        with nginx(place, place) as address:
            lines = [
                f"http://{address}/web/{file['name']}\n  out={file['name']}\n"
                f"  checksum=sha-256={file['checksum'].partition(':')[2]}\n"
                for file in inputs
            ]
            (place / "list").write_text("".join(lines))
            begun = time.monotonic()
            words = ["aria2c", "--quiet", "-j", "16", "-d", str(place / "disk"), "-i", str(place / "list")]
            subprocess.run(words, check=True)
            return staging.FILES / (time.monotonic() - begun)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _starts() -> float:
    return 1 / _seconds([str(Path(sys.executable).with_name("pilotage")), "--help"])


def _seconds(words: list[str]) -> float:
    """Seconds of a command, the least of five."""

    def once() -> float:
        begun = time.monotonic()
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - begun

    return min(once() for _ in range(5))
