"""Pilots at real servers over HTTP: a few that take many jobs or one each, and a thousand at once."""

import asyncio
import json
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection
from multiprocessing import resource_tracker
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from urllib.parse import urlsplit

from pilotage.demo import service
from pilotage.model.values.identity import Credential
from pilotage.store import Store

from . import house, matching

SECONDS = 5.0
A_REQUEST = 32
BURST = 1000
PROCESSES = 2
"""Client processes of the burst, each with its part of the pilots."""

Answered = tuple[float, int]
"""When a client ended (s since 1970), and how many of its connections were without an answer."""


def figures() -> dict[str, float]:
    """``matched_jobs_per_s_http``, one job a request from one and two servers, and the burst."""
    # Python's own helper for semaphores: one that started later would be ended with the first servers.
    resource_tracker.ensure_running()
    with _servers(1, matching.CLIENTS) as (servers, tokens):
        many, _ = _rate(servers, tokens, A_REQUEST)
    # A store of its own: what the others left would not last.
    with _servers(2, matching.CLIENTS) as (servers, tokens):
        one, _ = _rate(servers[:1], tokens, 1)
        two, empty = _rate(servers, tokens, 1)
    with _servers(1, BURST) as (servers, tokens):
        seconds, dropped = _burst(servers[0], tokens)
    return {
        "matched_jobs_per_s_http": many,
        "matches_per_s_http": one,
        "two_servers_gain": two / one,
        "two_servers_empty": empty,
        "pilot_burst_1000_s": seconds,
        "pilot_burst_1000_dropped": dropped,
    }


@contextmanager
def _servers(count: int, pilots: int) -> Iterator[tuple[list[str], list[str]]]:
    """Servers on one PostgreSQL with 50,000 activated jobs in 200 task queues, and tokens of pilots."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        with ExitStack() as held:
            url = held.enter_context(house.store("postgresql", place))
            ids = matching.prepare(url, 200, pilots=pilots)
            store = Store.open(url)
            pilot = partial(Credential, role="pilot", identity=matching.OWNER)
            tokens = [store.tokens.create(pilot(pilot=id_)) for id_ in ids]
            store.close()
            # Their other loops would start pilots of their own.
            only = ("--only", "watch")
            homes = (place / f"home{number}" for number in range(count))
            servers = [
                held.enter_context(service.running(None, home, None, url, *only)).url for home in homes
            ]
            yield servers, tokens
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _rate(servers: list[str], tokens: list[str], jobs: int) -> tuple[float, int]:
    """Jobs a second that clients are given who ask for so many at a time, and the empty answers."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(len(tokens)), context.SimpleQueue()
    running = [
        context.Process(target=_ask, args=(servers[number % len(servers)], token, jobs, barrier, answers))
        for number, token in enumerate(tokens)
    ]
    for process in running:
        process.start()
    found = [answers.get() for _ in running]
    for process in running:
        process.join()
    # Where all that waited was given before the time was over, what came after it does not count.
    seconds = max(last for *_, last in found)
    return sum(given for given, *_ in found) / seconds, sum(empty for _, empty, _ in found)


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


def _offer(jobs: int) -> bytes:
    offer = {"cores": jobs, "memory": 0, "walltime": 1e6, "max_jobs": jobs, "containment": "bubblewrap"}
    return json.dumps(offer).encode()


def _ask(
    server: str, token: str, most: int, barrier: Barrier, answers: "SimpleQueue[tuple[int, int, float]]"
) -> None:
    address = urlsplit(server)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def match() -> int:
        connection.request("POST", "/api/v1/pilot/match", _offer(most), headers)
        works = json.loads(connection.getresponse().read())["works"]
        return sum(len(work["jobs"]) for work in works)

    for _ in range(10):
        match()
    barrier.wait()
    begun = time.monotonic()
    jobs, empty, last = 0, 0, SECONDS
    while time.monotonic() - begun < SECONDS:
        given = match()
        jobs, empty = jobs + given, empty + (not given)
        last = time.monotonic() - begun if given else last
    answers.put((jobs, empty, last))


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
