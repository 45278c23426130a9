"""Run every benchmark, print a table, write ``build/bench.json``: one flat object, a key a figure.

A benchmark is a module of this package with ``figures() -> dict[str, float]``. ``--only`` names some of them;
``--runs`` is how often each is run: a key has the median, and ``KEY_min`` and ``KEY_max`` the spread.
``--pairs`` measures another commit in turns with this tree, and prints ratios only.
"""

import argparse
import importlib
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks import pairs
from pilotage.server.process import collect_rarely

MODULES = (
    "brokerage",
    "matchmaking",
    "matching",
    "serving",
    "servers",
    "streams",
    "lists",
    "sweep",
    "page",
    "passes",
    "cycle",
    "lifecycle",
    "memory",
    "catalogue",
    "scale",
    "store_size",
    "year",
    "slurm",
    "staging",
    "transfers",
    "simulating",
    "peers",
)
RESULT = pairs.RESULT
RUNS = 3

Spread = tuple[float, float, float]
"""The smallest, median and largest value of a figure."""


def main() -> None:
    """Measure, show, keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Pilotage.")
    parser.add_argument("--only", metavar="PART,...", default="", help=f"of {', '.join(MODULES)}")
    parser.add_argument("--runs", type=int, default=RUNS, help="how often each part is run")
    parser.add_argument(
        "--pairs", metavar="REVISION", default="", help="measure that commit in turns with this tree"
    )
    given = parser.parse_args()
    names = given.only.split(",") if given.only else MODULES
    if unknown := set(names) - set(MODULES):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(MODULES)}")
    collect_rarely()  # as a server does
    # Whoever bounds the time of a bench sends SIGTERM: its servers and databases end with it.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    console = Console()
    if given.pairs:
        pairs.compare(given.pairs, list(names), max(1, given.runs), console)
        return
    spreads: dict[str, Spread] = {}
    speeds = [_core_s()]
    for name in names:
        spreads |= _measured(name, max(1, given.runs), console)
        speeds.append(_core_s())
    spreads["core_10m_additions_s"] = _spread(speeds)
    known: dict[str, float] = json.loads(RESULT.read_text()) if RESULT.exists() and given.only else {}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(known | _flat(spreads), indent=2, sort_keys=True) + "\n")
    console.print(_table(spreads))
    cores, load = os.cpu_count(), os.getloadavg()[0]
    console.print(f"{cores} cores; the load of the last minute was {load:.1f}, the bench's own included")


def _core_s() -> float:
    """Processor time of ten million additions: shared machines change their speed from hour to hour."""
    begun, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - begun


def _spread(values: Sequence[float]) -> Spread:
    return min(values), median(values), max(values)


def _measured(name: str, runs: int, console: Console) -> dict[str, Spread]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(runs):
        with console.status(f"measuring {name}, run {number + 1} of {runs} …"):
            for key, value in importlib.import_module(f"benchmarks.{name}").figures().items():
                found[key].append(value)
    return {key: _spread(values) for key, values in found.items()}


def _flat(spreads: dict[str, Spread]) -> dict[str, float]:
    flat: dict[str, float] = {}
    for key, (least, middle, most) in spreads.items():
        flat |= {key: middle, f"{key}_min": least, f"{key}_max": most}
    return flat


def _table(spreads: dict[str, Spread]) -> Table:
    table = Table("figure", "min", "median", "max", title="Pilotage, measured")
    for column in table.columns[1:]:
        column.justify = "right"
    for key, values in sorted(spreads.items()):
        table.add_row(key, *(f"{value:,.2f}" if value < 100 else f"{value:,.0f}" for value in values))
    return table


if __name__ == "__main__":
    main()
