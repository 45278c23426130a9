"""Pilots at real servers over HTTP: a few that take many jobs or one each, and a thousand at once."""

import asyncio
import json
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from urllib.parse import urlsplit

from pilotage.demo import service
from pilotage.model.identity import Credential
from pilotage.store import Store

from . import house, matching

SECONDS = 5.0
A_REQUEST = 32
BURST = 1000
PROCESSES = 2
"""Client processes of the burst, each with its part of the pilots."""

Answered = tuple[float, int]
"""When a client ended (s since 1970), and how many jobs, or how many connections without an answer."""


def figures() -> dict[str, float]:
    """``matched_jobs_per_s_http`` and the burst of a thousand pilots, that report and ask at once."""
    with _server(matching.CLIENTS) as (server, tokens):
        rate = _many_a_request(server, tokens)
    with _server(BURST) as (server, tokens):
        seconds, dropped = _burst(server, tokens)
    return {
        "matched_jobs_per_s_http": rate,
        "pilot_burst_1000_s": seconds,
        "pilot_burst_1000_dropped": dropped,
    }


@contextmanager
def _server(pilots: int) -> Iterator[tuple[str, list[str]]]:
    """A server on PostgreSQL with 50,000 activated jobs in 200 task queues, and tokens of pilots."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        with house.store("postgresql", place) as url:
            ids = matching.prepare(url, 200, pilots=pilots)
            store = Store.open(url)
            tokens = [
                store.tokens.create(Credential(role="pilot", identity=matching.OWNER, pilot=id_))
                for id_ in ids
            ]
            store.close()
            # Its other loops would start pilots of their own.
            with service.running(None, place / "home", None, url, "--only", "watch") as server:
                yield server.url, tokens
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _many_a_request(server: str, tokens: list[str]) -> float:
    """Jobs a second that clients are given who ask for 32 at a time over a connection they keep."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(len(tokens)), context.SimpleQueue()
    running = [context.Process(target=_ask, args=(server, token, barrier, answers)) for token in tokens]
    return sum(jobs for _, jobs in _answered(running, answers)) / SECONDS


def _burst(server: str, tokens: list[str]) -> tuple[float, int]:
    """Seconds until the last pilot has its jobs, and the connections that got no answer."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(PROCESSES + 1), context.SimpleQueue()
    running = [
        context.Process(target=_all_at_once, args=(server, tokens[number::PROCESSES], barrier, answers))
        for number in range(PROCESSES)
    ]
    for process in running:
        process.start()
    barrier.wait()
    begun = time.time()
    found = [answers.get() for _ in running]
    for process in running:
        process.join()
    return max(end for end, _ in found) - begun, sum(dropped for _, dropped in found)


def _answered(
    running: "list[multiprocessing.context.SpawnProcess]", answers: "SimpleQueue[Answered]"
) -> list[Answered]:
    for process in running:
        process.start()
    found = [answers.get() for _ in running]
    for process in running:
        process.join()
    return found


def _offer(jobs: int) -> bytes:
    offer = {"cores": jobs, "memory": 0, "walltime": 1e6, "max_jobs": jobs, "containment": "bubblewrap"}
    return json.dumps(offer).encode()


def _ask(server: str, token: str, barrier: Barrier, answers: "SimpleQueue[Answered]") -> None:
    address = urlsplit(server)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def match() -> int:
        connection.request("POST", "/api/v1/pilot/match", _offer(A_REQUEST), headers)
        works = json.loads(connection.getresponse().read())["works"]
        return sum(len(work["jobs"]) for work in works)

    for _ in range(10):
        match()
    barrier.wait()
    jobs, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        jobs += match()
    answers.put((time.time(), jobs))


def _all_at_once(server: str, tokens: list[str], barrier: Barrier, answers: "SimpleQueue[Answered]") -> None:
    async def all_of_them() -> list[bool]:
        barrier.wait()
        return await asyncio.gather(*(_pilot(server, token) for token in tokens))

    answered = asyncio.run(all_of_them())
    answers.put((time.time(), answered.count(False)))


async def _pilot(server: str, token: str) -> bool:
    """Report, then ask, each over a connection of its own as agents do; tell whether both were answered."""
    try:
        await _post(server, token, "report", b'{"holding": [], "reports": []}')
        await _post(server, token, "match", _offer(1))
    except (OSError, EOFError, ValueError):
        return False
    return True


async def _post(server: str, token: str, path: str, body: bytes) -> None:
    address = urlsplit(server)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = (
        f"POST /api/v1/pilot/{path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise ValueError(f"{path}: {answer[:300]!r}")
