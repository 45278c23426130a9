"""Machines that describe themselves: the questions, and the answers by section."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pilotage.federation.importers.import_result import Entry, Imported, Note
from pilotage.model.records.storage_spaces import LEAST_FREE

SECTION = "== pilotage "
LEAST_PYTHON = (3, 9)

LEAST_PART = 0.1
"""The part of the present free space that must stay free at a small storage (B18)."""

SPACE = "df -Pk . | tail -1"
"""The question for the space at a shell's folder."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """Records for a federation's file, by section, and notes on every guess."""

    records: Mapping[str, list[dict[str, Any]]]
    notes: tuple[Note, ...]

    def report(self) -> Imported:
        """Return the notes as an importer's report."""
        return Imported(federation=None, entries=len(self.records["queues"]), notes=self.notes)


def questions(commands: Mapping[str, str]) -> str:
    """Return one command for a shell, which prints a section for each of these commands."""
    return "; ".join(f"echo {shlex.quote(SECTION + name)}; {command}" for name, command in commands.items())


def sections(answer: str) -> dict[str, list[str]]:
    """Return the lines of each section. Lines in front of the first, such as greetings, are left out."""
    by_name: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in answer.splitlines():
        if line.startswith(SECTION):
            lines = by_name.setdefault(line.removeprefix(SECTION).strip(), [])
        elif line.strip():
            lines.append(line.strip())
    return by_name


def free_space(line: str) -> float | None:
    """Return the GB free by a line of ``df -Pk``; None if it is no such line."""
    values = line.split()
    return int(values[3]) / 1e6 if len(values) >= 6 and values[3].isdecimal() else None


def small_storage(free: float | None, entry: Entry) -> dict[str, float]:
    """Return ``storage_min_free`` of a storage where so few GB are free that no job would come (B18)."""
    if free is None or (least := round(LEAST_PART * free, 1)) >= LEAST_FREE:
        return {}
    text = f"{free:.0f} GB are free now; jobs come while more than this many GB are"
    entry.note("guessed", "storage_min_free", least, text)
    return {"storage_min_free": least}


def note_old_python(lines: list[str], place: str, entry: Entry) -> None:
    """Note a Python that is too old for pilots."""
    version = re.search(r"Python (\d+)\.(\d+)", " ".join(lines))
    if version is None or (int(version[1]), int(version[2])) < LEAST_PYTHON:
        installed = version[0] if version else "none"
        text = f"{place}'s python3 is too old for pilots: name one of the nodes with option python"
        entry.note("guessed", "python", installed, text)
