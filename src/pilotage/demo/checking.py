"""Compare what the federation made with a direct computation in one process from the same files."""

import csv
import multiprocessing
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from pathlib import Path

from pilotage.demo.payload.module_statistics import COLUMNS, statistics_of

Row = list[str]


def directly(files: Sequence[tuple[str, Path]], processes: int) -> list[Row]:
    """Return the rows of the merged table, computed here without sites, pilots or transfers."""
    context = multiprocessing.get_context("spawn")
    ignore = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(processes, context, initializer=signal.signal, initargs=ignore) as pool:
        rows = [list(map(str, row)) for row in pool.map(_statistics, sorted(files), chunksize=16)]
    return [list(COLUMNS), *rows]


def _statistics(file: tuple[str, Path]) -> tuple[object, ...]:
    name, path = file
    return statistics_of(name, path.read_bytes())


def table(path: Path) -> list[Row]:
    """Return the rows of a CSV file, including its header."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def differences(rows: Sequence[Row], expected_rows: Sequence[Row], limit: int = 5) -> list[str]:
    """Return the first differing rows in words; nothing if the tables are equal."""
    lines: list[str] = []
    for number, (row, expected_row) in enumerate(zip_longest(rows, expected_rows), start=1):
        if row != expected_row and len(lines) < limit:
            lines.append(
                f"row {number}: the federation has {_words(row)}, directly it is {_words(expected_row)}"
            )
    return lines


def _words(row: Row | None) -> str:
    return "nothing" if row is None else ",".join(row)
