"""Readers that follow a task of 5,000 jobs: 200 streams of events next to 200 that ask once a second.

The server's processor time is that of its process without readers subtracted: it commits the same changes.
The readers are operators, because one person may hold only so many streams.
"""

import asyncio
import json
import multiprocessing
import socket
import tempfile
import threading
import time
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import mean

import uvicorn

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import JobState
from pilotage.model.values.identity import Credential, Identity
from pilotage.server.api import create_app
from pilotage.store import Store
from pilotage.testing.records import ALICE
from pilotage.testing.stores import decision, move, new_jobs, new_task
from pilotage.testing.worlds import federation

JOBS = 5000
READERS = 200
PEOPLE = 4
TOGETHER = 25
"""Jobs of one commit."""

SECONDS = 10.0
"""Time in which all jobs make one transition; longer where the machine is too busy."""

PERIOD = 1.0
"""Seconds between two requests of a reader that asks."""


def figures() -> dict[str, float]:
    """Processor time of the server for readers, in s, their ratio, and the delay of news in s."""
    idle, _ = _run("none")
    streamed, delay = _run("stream")
    polled, answered = _run("poll")
    streams, polls = max(0.001, streamed - idle), max(0.001, polled - idle)
    return {
        "streams_200_server_cpu_s": streams,
        "polls_200_server_cpu_s": polls,
        "streams_cpu_of_polls": streams / polls,
        "streams_200_delay_s": delay,
        # News waits for half a period on average, and then for its answer.
        "polls_200_delay_s": PERIOD / 2 + answered,
    }


def _run(how: str) -> tuple[float, float]:
    """Processor time of this process, and the mean delay that readers saw."""
    with tempfile.TemporaryDirectory() as directory:
        store = Store.open(f"sqlite:///{Path(directory)}/store.sqlite")
        store.save_federation(federation(), "bench")
        task = new_task(store)
        jobs = new_jobs(store, task, JOBS)
        tokens = [
            store.tokens.create(
                Credential(role="operator", identity=Identity(name=f"reader{n}", vo=ALICE.vo))
            )
            for n in range(PEOPLE)
        ]
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        app = create_app(Runtime(store, (), load=load, movers=InstalledMovers))
        server = uvicorn.Server(uvicorn.Config(app, ws="none", log_config=None))
        serving = threading.Thread(target=server.run, args=([listener],))
        serving.start()
        context = multiprocessing.get_context("spawn")
        answers = context.SimpleQueue()
        port = listener.getsockname()[1]
        done = context.Event()
        readers = context.Process(target=_read, args=(how, port, tokens, task, answers, done), daemon=True)
        readers.start()
        answers.get()
        begun = time.process_time()
        _change(store, jobs)
        used = time.process_time() - begun
        done.set()
        delay = answers.get()
        readers.join()
        app.state.events.close()
        server.should_exit = True
        serving.join()
        store.close()
        return used, delay


def _change(store: Store, jobs: list[int]) -> None:
    """Let all jobs wait, some at a time, evenly over the time."""
    begun = time.monotonic()
    for first in range(0, JOBS, TOGETHER):
        part = move("job", jobs[first : first + TOGETHER], JobState.DEFINED, JobState.PENDING)
        store.commit(decision(part, time=time.time()), "bench")
        time.sleep(max(0.0, begun + SECONDS * (first + TOGETHER) / JOBS - time.monotonic()))


def _read(
    how: str, port: int, tokens: list[str], task: int, answers: "SimpleQueue[float]", done: Event
) -> None:
    asyncio.run(_readers(how, port, tokens, task, answers, done))


async def _readers(
    how: str, port: int, tokens: list[str], task: int, answers: "SimpleQueue[float]", done: Event
) -> None:
    delays: list[float] = [0.0]
    path = f"/events?task={task}" if how == "stream" else f"/tasks/{task}"
    accept = "text/event-stream" if how == "stream" else "application/json"
    one = _stream if how == "stream" else _poll
    running = []
    for number in range(READERS if how != "none" else 0):
        head = f"GET /api/v1{path} HTTP/1.1\r\nHost: bench\r\nAccept: {accept}\r\n"
        request = f"{head}Authorization: Bearer {tokens[number % PEOPLE]}\r\n\r\n"
        running.append(asyncio.create_task(one(port, request.encode(), delays)))
    await asyncio.sleep(3)
    for reader in running:
        if reader.done():
            reader.result()
            raise RuntimeError("a reader ended before the jobs began")
    delays.clear()
    answers.put(0.0)
    await asyncio.to_thread(done.wait)
    for reader in running:
        reader.cancel()
    answers.put(mean(delays or [0.0]))


async def _stream(port: int, request: bytes, delays: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    writer.write(request)
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError(f"no stream: {status.decode().strip()}")
    while line := await reader.readline():
        if line.startswith(b'data: {"id"'):
            delays.append(time.time() - json.loads(line[6:])["time"])


async def _poll(port: int, request: bytes, delays: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    while True:
        begun = time.monotonic()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(f"no answer: {head[:40].decode()}")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.partition(b":")[2]))
        delays.append(time.monotonic() - begun)
        await asyncio.sleep(max(0.0, PERIOD - (time.monotonic() - begun)))
