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
import signal
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
"""Seconds for all; what is measured then is left."""

WARNED = 0.85
"""The ratio below which a figure is named."""

CALLS, CLIENTS = 800, 8
LIVES = 500

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
    # What bounds the time sends SIGTERM: servers end with the bench.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
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
    """Small passes: submission, splitting and brokerage of 2,000 jobs; a director of 500 task queues."""
    cycle, director = (importlib.import_module(f"benchmarks.{name}") for name in ("cycle", "passes"))
    vars(cycle).update(TASKS=40, JOBS=2_000, QUEUES=50)
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
    end, ratios = time.monotonic() + SECONDS, defaultdict[str, list[float]](list)
    with _place() as place:
        try:
            other = _package(revision, place)
            while time.monotonic() < end:
                _pair(pairs.ROOT / "src", other, ratios, end)
                _pair(other, pairs.ROOT / "src", ratios, end)
        except subprocess.TimeoutExpired:
            pass
        except subprocess.CalledProcessError as error:
            reason = (error.stderr or b"").decode(errors="replace").strip().rpartition("\n")[2]
            console.print(f"no comparison with {revision}: {reason or error}", markup=False)
            return
    if not ratios:
        console.print(f"nothing was compared with {revision} within {SECONDS:g} s")
        return
    console.print(pairs.table(revision, ratios))
    count = max(map(len, ratios.values()))
    console.print(f"{count} pairs within {SECONDS:g} s; one alone is not judged")
    for name, values in sorted(ratios.items()):
        if len(values) > 1 and median(values) < WARNED:
            console.print(f"WARNING: {name} in a second of a processor: {median(values):.2f} of {revision}")


def _package(revision: str, place: Path) -> Path:
    """Return a folder with the package of another commit. Raises ``CalledProcessError``."""
    words = ["git", "archive", revision, "src", "hatch_build.py", "pyproject.toml", "README.md"]
    archive = subprocess.run(words, cwd=pairs.ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
        tree.extractall(place, filter="data")
    subprocess.run([sys.executable, "hatch_build.py"], cwd=place, check=True, capture_output=True)
    return place / "src"


def _pair(first: Path, second: Path, ratios: dict[str, list[float]], end: float) -> None:
    """Measure one tree after the other. A ratio is of this tree to the other."""
    figures = {tree: _measured(tree, end) for tree in (first, second)}
    ours = figures.pop(pairs.ROOT / "src")
    (theirs,) = figures.values()
    for name in ours.keys() & theirs.keys():
        ratios[name].append(ours[name] / theirs[name])


def _measured(package: Path, end: float) -> dict[str, float]:
    """Return the figures with this package. Raises ``CalledProcessError``, and ``TimeoutExpired``."""
    words = [sys.executable, "-m", "benchmarks.quick"]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    left = max(1.0, end - time.monotonic())
    with subprocess.Popen(
        words, cwd=pairs.ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            output, errors = process.communicate(timeout=left)
        finally:
            process.terminate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words, output, errors)
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
