"""Simulations that people start from the page: each in a bounded process, a few at a time."""

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pilotage.flow.calls.administration.people import LONGEST, MOST_TIME
from pilotage.ports.bounded_process import run_process
from pilotage.store import SimulationResult, Store

MOST_PROCESSOR = 120
"""Seconds of processor time of a command."""

MOST_MEMORY = 4 * 1024**3
"""Bytes of address space of a command."""

MOST_TEXT = 40_000
"""Most characters of a command's words that are kept."""

MOST_PICTURE = 300_000
"""Most bytes of a picture that is kept."""

MOST_AT_ONCE = 2
"""Most simulations at a server at the same time."""

SMALLER = "simulate less work, or use the command line"

FEDERATION, SCENARIO = "federation.yaml", "scenario.yaml"
PICTURES = ("ratios.svg", "runs.svg")


class NoRoom(Exception):
    """No further simulation starts now; the message is the reason."""


class SimulationRuns:
    """Starts simulations, one at a time for each person, a few at a server. The store keeps the results."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)

    def start(
        self,
        person: str,
        policies: Sequence[str],
        commands: Sequence[Sequence[str]],
        files: Mapping[str, str],
        environment: Mapping[str, str],
    ) -> None:
        """Run commands one after another in a folder with these files. Raises ``NoRoom``."""
        if not self._places.acquire(blocking=False):
            raise NoRoom(f"{MOST_AT_ONCE} simulations run at this server; try again in some minutes")
        begun = self._clock()
        try:
            if not self._store.simulations.begin(person, tuple(policies), begun, LONGEST):
                raise NoRoom("your last simulation still runs; wait for it")
        except BaseException:
            self._places.release()
            raise

        def run() -> None:
            try:
                result = _result(SimulationResult(policies=tuple(policies)), commands, files, environment)
                self._store.simulations.end(person, begun, self._clock(), result)
            finally:
                self._places.release()

        threading.Thread(target=run, name="simulation", daemon=True).start()


def _result(
    begun: SimulationResult,
    commands: Sequence[Sequence[str]],
    files: Mapping[str, str],
    environment: Mapping[str, str],
) -> SimulationResult:
    """Run commands in a folder with these files, until one fails. Return their texts and pictures."""
    text = ""
    try:
        with tempfile.TemporaryDirectory(prefix="pilotage-simulation-") as folder:
            place = Path(folder)
            for name, content in files.items():
                (place / name).write_text(content)
            for words in commands:
                output, fault = _command(words, place, environment)
                text = output or text
                if fault:
                    return replace(begun, text=text, fault=fault)
            pictures = [_picture(place / name) for name in PICTURES if (place / name).exists()]
            return replace(begun, text=text, pictures=tuple(pictures))
    except OSError as error:
        return replace(begun, text=text, fault=f"the simulation cannot run here: {error.strerror}")


def _command(words: Sequence[str], place: Path, environment: Mapping[str, str]) -> tuple[str, str]:
    """Run a command. Return its output, and the reason of its failure or nothing."""
    bounds = map(str, (MOST_PROCESSOR, MOST_MEMORY, os.getpid()))
    worker = [sys.executable, "-m", "pilotage.server.web.simulation_worker", *bounds]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PILOTAGE_")}
    more = {"PILOTAGE_HOME": str(place / "home"), "COLUMNS": "100", "OPENBLAS_NUM_THREADS": "1"}
    end = run_process([*worker, *words], b"", {**inherited, **more, **environment}, MOST_TIME, place)
    if end.code is None:
        return "", f"it was ended after {MOST_TIME / 60:.0f} minutes; {SMALLER}"
    text, fault = (output.decode(errors="replace")[-MOST_TEXT:] for output in (end.out, end.complaints))
    if end.code < 0:
        return text, f"it was ended after {MOST_PROCESSOR} s of processor time; {SMALLER}"
    return text, fault.strip() if end.code else ""


def _picture(path: Path) -> str:
    """Return a picture that `pilotage simulate` drew; its words are escaped there."""
    text = path.read_text()
    return text if len(text) <= MOST_PICTURE else ""
