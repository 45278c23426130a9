"""The work of a storm, and what must become of it: final states and every output with its content."""

import random
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .payloads import MERGE, SUMS
from .plan import Arrival

FILES = 24
"""Input files, at two of the sites."""

ATTEMPTS = 100
"""Attempts of jobs that must finish: more than faults can cost."""


def content(number: int) -> bytes:
    """Return the content of an input file."""
    return random.Random(number).randbytes(3000 + 7 * number)


def file_name(number: int) -> str:
    """Return the name of an input file."""
    return f"file-{number:03}"


def write_inputs(storages: Path) -> None:
    """Put the input files into two storages."""
    for number in range(FILES):
        folder = storages / ("east", "west")[number % 2] / "data"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file_name(number)).write_bytes(content(number))


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must become of a task: its final state, and its outputs by name."""

    name: str
    state: str
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """A submission: its path in the API, its document, and what must become of each task.

    Somebody cancels its tasks after ``cancel_after`` s, if that is given.
    """

    key: str
    path: str
    document: Mapping[str, Any]
    expectations: tuple[Expectation, ...]
    cancel_after: float | None = None


class _Maker:
    """Makes the tasks of one arrival. ``place`` has the ledger."""

    def __init__(self, number: int, arrival: Arrival, place: Path) -> None:
        self._drawn = random.Random(arrival.seed)
        self._place = place
        self._name = f"{arrival.kind}-{number}"

    def _task(self, name: str, seconds: float, failures: int = 0, **fields: Any) -> dict[str, Any]:
        ledger = str(self._place / "ledger")
        return {
            "name": name,
            "nucleus": "north",
            "command": [
                sys.executable,
                "-I",
                "-S",
                "payload.py",
                ledger,
                str(round(seconds, 2)),
                str(failures),
            ],
            "payload_files": {"payload.py": SUMS, "merge.py": MERGE},
            "outputs": ["sums-{index}.txt"],
            "max_attempts": ATTEMPTS,
            "scouts": 0,
            "ram": 100,
            "walltime": 600,
            **fields,
        }

    def _work(
        self, *tasks: tuple[dict[str, Any], str, Mapping[str, str]], cancel_after: float | None = None
    ) -> Work:
        documents = [task for task, _, _ in tasks]
        expected = tuple(Expectation(task["name"], state, outputs) for task, state, outputs in tasks)
        if len(tasks) == 1:
            return Work(self._name, "/tasks", {"tasks": documents}, expected, cancel_after)
        return Work(self._name, "/workflows", {"name": self._name, "tasks": documents}, expected)

    def merged(self) -> Work:
        """Files of two sites, two a job, all merged into one."""
        chosen = sorted(self._drawn.sample(range(FILES), self._drawn.choice((4, 6, 8))))
        inputs = [
            {"storages": ["east-disk", "west-disk"], "glob": f"data/{file_name(number)}"} for number in chosen
        ]
        task = self._task(
            self._name,
            self._drawn.uniform(0.3, 1.5),
            inputs=inputs,
            files_per_job=2,
            merge={"command": [sys.executable, "-I", "-S", "merge.py"], "outputs": ["merged.txt"]},
        )
        lines = [_line(number) for number in chosen]
        outputs = {
            f"sums-{at}.txt": _text(lines[2 * at : 2 * at + 2]) for at in range((len(chosen) + 1) // 2)
        }
        return self._work((task, "finished", outputs | {"merged.txt": _text(lines)}))

    def flaky(self) -> Work:
        """Jobs whose first attempts fail."""
        jobs = self._drawn.randint(2, 4)
        task = self._task(
            self._name, self._drawn.uniform(0.1, 1), failures=self._drawn.randint(1, 2), jobs=jobs
        )
        return self._work((task, "finished", _indexed(jobs)))

    def many(self) -> Work:
        """Short jobs."""
        jobs = self._drawn.randint(8, 16)
        return self._work((self._task(self._name, 0.1, jobs=jobs), "finished", _indexed(jobs)))

    def broken(self) -> Work:
        """Jobs whose attempts all fail."""
        task = self._task(self._name, 0.1, failures=ATTEMPTS, jobs=2, max_attempts=2)
        return self._work((task, "failed", {}))

    def chain(self) -> Work:
        """A task, and one that reads what it made."""
        jobs = self._drawn.randint(2, 3)
        first = self._task(f"{self._name}-first", self._drawn.uniform(0.1, 1), jobs=jobs)
        inputs = [{"task": first["name"], "match": "*.txt"}]
        second = self._task(f"{self._name}-second", 0.2, inputs=inputs, files_per_job=jobs)
        made = _indexed(jobs)
        lines = [f"{name} {zlib.adler32(text.encode())}" for name, text in made.items()]
        return self._work((first, "finished", made), (second, "finished", {"sums-0.txt": _text(lines)}))

    def cancelled(self) -> Work:
        """Long jobs that somebody cancels."""
        task = self._task(self._name, 8, jobs=3)
        return self._work((task, "cancelled", _indexed(3)), cancel_after=self._drawn.uniform(0.5, 6))

    def probe(self, site: str) -> Work:
        """One short job ahead of all others, at a site if one is given."""
        fields: dict[str, Any] = {"queues": [f"{site}-queue"]} if site else {}
        return self._work((self._task(self._name, 0.0, priority=799, **fields), "finished", _indexed(1)))


KINDS: Mapping[str, Callable[[_Maker], Work]] = {
    "merged": _Maker.merged,
    "flaky": _Maker.flaky,
    "many": _Maker.many,
    "broken": _Maker.broken,
    "chain": _Maker.chain,
    "cancelled": _Maker.cancelled,
}
"""Kinds of submissions that arrive all the time."""


def work_of(number: int, arrival: Arrival, place: Path) -> Work:
    """Return the submission of an arrival."""
    return KINDS[arrival.kind](_Maker(number, arrival, place))


def probe(number: int, site: str, place: Path) -> Work:
    """Return a task that tells whether work gets through, at a site if one is given."""
    return _Maker(number, Arrival(0, "probe", 0), place).probe(site)


def _indexed(jobs: int) -> dict[str, str]:
    return {f"sums-{index}.txt": f"index {index}\n" for index in range(jobs)}


def _line(number: int) -> str:
    return f"{file_name(number)} {zlib.adler32(content(number))}"


def _text(lines: list[str]) -> str:
    return "\n".join(sorted(lines)) + "\n"
