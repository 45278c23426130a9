"""Simulations that people start from the page: each in a process of its own with bounds, a few at a time."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cachetools import TTLCache

MOST_PROCESSOR = 120
"""Seconds of processor time of a command."""

MOST_TIME = 600.0
"""Seconds after which a command is ended."""

MOST_MEMORY = 4 * 1024**3
"""Bytes of address space of a command."""

MOST_TEXT = 40_000
"""Most characters of a command's words that are kept."""

MOST_PICTURE = 300_000
"""Most bytes of a picture that is kept."""

MOST_AT_ONCE = 2
"""Most simulations at a server at once."""

KEPT, KEPT_FOR = 50, 3600.0
"""Most results that a server keeps, and seconds for which it keeps one."""

FEDERATION, SCENARIO = "federation.yaml", "scenario.yaml"
PICTURES = ("ratios.svg", "runs.svg")


@dataclass(kw_only=True)
class SimulationRun:
    """One simulation: what it compares, and its words and pictures as soon as it has ended."""

    policies: Sequence[str]
    begun: float
    text: str = ""
    fault: str = ""
    pictures: Sequence[str] = ()
    is_running: bool = True


class NoRoom(Exception):
    """No further simulation starts now; the message says why."""


class SimulationRuns:
    """Starts simulations, one at a time for each person, and keeps the last result of each."""

    def __init__(self) -> None:
        self._runs: TTLCache[str, SimulationRun] = TTLCache(KEPT, KEPT_FOR)
        self._running: set[str] = set()
        self._lock = threading.Lock()

    def of(self, person: str) -> SimulationRun | None:
        """Return the last simulation of a person."""
        with self._lock:
            return self._runs.get(person)

    def start(
        self,
        person: str,
        policies: Sequence[str],
        commands: Sequence[Sequence[str]],
        files: Mapping[str, str],
        environment: Mapping[str, str],
    ) -> None:
        """Run commands one after another in a folder with these files. Raises :class:`NoRoom`."""
        run = SimulationRun(policies=policies, begun=time.time())
        with self._lock:
            if person in self._running:
                raise NoRoom("your last simulation still runs; wait for it")
            if len(self._running) >= MOST_AT_ONCE:
                raise NoRoom(f"{MOST_AT_ONCE} simulations of others run here; try again in some minutes")
            self._running.add(person)
            self._runs[person] = run

        def done() -> None:
            run.is_running = False
            with self._lock:
                self._running.discard(person)

        threading.Thread(
            target=_run, args=(run, commands, files, environment, done), name="simulation", daemon=True
        ).start()


def _run(
    run: SimulationRun,
    commands: Sequence[Sequence[str]],
    files: Mapping[str, str],
    environment: Mapping[str, str],
    done: Callable[[], None],
) -> None:
    try:
        with tempfile.TemporaryDirectory(prefix="pilotage-simulation-") as folder:
            place = Path(folder)
            for name, text in files.items():
                (place / name).write_text(text)
            for words in commands:
                if fault := _command(run, words, place, environment):
                    run.fault = fault
                    return
            run.pictures = [_picture(place / name) for name in PICTURES if (place / name).exists()]
    except OSError as error:
        run.fault = f"the simulation cannot run here: {error.strerror}"
    finally:
        done()


def _command(run: SimulationRun, words: Sequence[str], place: Path, environment: Mapping[str, str]) -> str:
    """Run a command, and keep what it says; return why it failed, or nothing."""
    bounds = map(str, (MOST_PROCESSOR, MOST_MEMORY, os.getpid()))
    worker = [sys.executable, "-m", "pilotage.web.simulation_worker", *bounds]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PILOTAGE_")}
    more = {"PILOTAGE_HOME": str(place / "home"), "COLUMNS": "100", "OPENBLAS_NUM_THREADS": "1"}
    try:
        found = subprocess.run(
            [*worker, *words],
            cwd=place,
            env={**kept, **more, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MOST_TIME,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it was ended after {MOST_TIME / 60:.0f} minutes; simulate less work, or use the command line"
    run.text = found.stdout[-MOST_TEXT:] or run.text
    if found.returncode < 0:
        return (
            f"it was ended after {MOST_PROCESSOR} s of processor time; "
            "simulate less work, or use the command line"
        )
    return found.stderr[-MOST_TEXT:].strip() if found.returncode else ""


def _picture(path: Path) -> str:
    """Return a picture that `pilotage simulate` drew; its words are escaped there."""
    text = path.read_text()
    return text if len(text) <= MOST_PICTURE else ""
