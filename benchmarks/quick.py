"""Small figures beside an earlier commit, in turns, within minutes: what each run of CI measures.

Every figure is work in a second of a processor, so that other programs matter less. This tree measures both:
of the other commit it takes the package alone, with the libraries of this one.
"""

import argparse
import asyncio
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.console import Console
from starlette.types import Message

from pilotage.model.values.identity import Credential
from pilotage.server.api import PREFIX, create_app
from pilotage.server.process import collect_rarely, runtime_of
from pilotage.store import Store

from . import house, matching, pairs

SECONDS = 180.0
"""Seconds after which no further round begins."""

WARNED = 0.85
"""The ratio below which a figure is named."""

CALLS, CLIENTS = 1500, 8
LIVES = 1000

BEAT = b'{"holding": [], "reports": []}'
OFFER = b'{"cores": 1, "memory": 0, "walltime": 1e6, "max_jobs": 1, "containment": "bubblewrap"}'


def main() -> None:
    """Compare this tree with another commit, or print the figures of one tree as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quick", description="Measure a little.")
    parser.add_argument(
        "--pairs", metavar="REVISION", default="", help="measure that commit in turns with this tree"
    )
    given = parser.parse_args()
    if given.pairs:
        _compare(given.pairs, Console())
        return
    collect_rarely()  # as a server does
    print(json.dumps(calls() | lives() | passes()))


def calls() -> dict[str, float]:
    """Heartbeats and matches through the whole application, without the network, on SQLite."""
    with _place() as place:
        url = f"sqlite:///{place / 'store.sqlite'}"
        pilots = matching.prepare(url, 50, jobs=4 * CALLS, pilots=CLIENTS)
        store = Store.open(url)
        pilot = {"role": "pilot", "identity": matching.OWNER}
        tokens = [store.tokens.create(Credential(**pilot, pilot=id_)) for id_ in pilots]  # type: ignore[arg-type]
        runtime = runtime_of(store)
        app = create_app(runtime)

        async def called(path: str, body: bytes, count: int) -> None:
            async def client(token: str) -> None:
                for _ in range(count // CLIENTS):
                    await _called(app, token, f"{PREFIX}/pilot/{path}", body)

            await asyncio.gather(*map(client, tokens))

        async def rate(path: str, body: bytes) -> float:
            await called(path, body, CALLS // 5)
            begun = time.process_time()
            await called(path, body, CALLS)
            return CALLS / (time.process_time() - begun)

        async def rates() -> dict[str, float]:
            return {"heartbeats": await rate("report", BEAT), "matches": await rate("match", OFFER)}

        found = asyncio.run(rates())
        runtime.close()
        store.close()
        return found


async def _called(app: Any, token: str, path: str, body: bytes) -> None:
    """Call the application as its web server does. Raises RuntimeError for a refusal."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    answers: list[Message] = []

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    async def send(message: Message) -> None:
        answers.append(message)

    headers = {
        "authorization": f"Bearer {token}",
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": "POST",
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await app(scope, receive, send)
    if answers[0]["status"] != 200:
        raise RuntimeError(f"{path}: {answers}")


def lives() -> dict[str, float]:
    """Whole lives of jobs in a server on SQLite, by the server's processor time."""
    lifecycle = importlib.import_module("benchmarks.lifecycle")
    with house.running("sqlite") as server:
        lifecycle._whole(server, LIVES)
        times = psutil.Process(server.pid).cpu_times
        begun = sum(times()[:2])
        lifecycle._whole(server, LIVES)
        return {"lives": LIVES / (sum(times()[:2]) - begun)}


def passes() -> dict[str, float]:
    """Small passes: submission, splitting and brokerage of 5,000 jobs; a director of 500 task queues."""
    cycle, director = (importlib.import_module(f"benchmarks.{name}") for name in ("cycle", "passes"))
    vars(cycle).update(TASKS=100, JOBS=5_000, QUEUES=100)
    vars(director).update(TASK_QUEUES=500, QUEUES=50)
    with _place() as place:
        cycle_s = _processor(lambda: cycle._cycle(f"sqlite:///{place / 'store.sqlite'}"))
    return {
        "cycles": 1 / cycle_s,
        "directors": 1 / _processor(lambda: director._measured("sqlite", director.director_seconds)),
    }


def _processor(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


@contextmanager
def _place() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _compare(revision: str, console: Console) -> None:
    """Print the ratios of this tree to another commit, and name those that are low. Never fail."""
    begun, ratios = time.monotonic(), defaultdict[str, list[float]](list)
    with _place() as place:
        try:
            other = _package(revision, place)
            while not ratios or time.monotonic() - begun < SECONDS * 2 / 3:
                _round(pairs.ROOT / "src", other, ratios)
        except subprocess.CalledProcessError as error:
            reason = (error.stderr or b"").decode(errors="replace").strip().splitlines() or [str(error)]
            console.print(f"no comparison with {revision}: {reason[-1]}", markup=False)
            if not ratios:
                return
    console.print(pairs.table(revision, ratios))
    for name, values in sorted(ratios.items()):
        if median(values) < WARNED:
            console.print(f"WARNING: {name} in a second of a processor: {median(values):.2f} of {revision}")


def _package(revision: str, place: Path) -> Path:
    """Return a folder with the package of another commit. Raises ``CalledProcessError``."""
    words = ["git", "archive", revision, "src", "hatch_build.py", "pyproject.toml", "README.md"]
    archive = subprocess.run(words, cwd=pairs.ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
        tree.extractall(place, filter="data")
    subprocess.run([sys.executable, "hatch_build.py"], cwd=place, check=True, capture_output=True)
    return place / "src"


def _round(ours: Path, theirs: Path, ratios: dict[str, list[float]]) -> None:
    """Measure in the order A B B A. A ratio compares two neighbours."""
    first, second, third, fourth = (_measured(tree) for tree in (ours, theirs, theirs, ours))
    for mine, other in ((first, second), (fourth, third)):
        for name in mine.keys() & other.keys():
            ratios[name].append(mine[name] / other[name])


def _measured(package: Path) -> dict[str, float]:
    """Return the figures with this package. Raises ``CalledProcessError``."""
    words = [sys.executable, "-m", "benchmarks.quick"]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(words, cwd=pairs.ROOT, env=environment, check=True, capture_output=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
