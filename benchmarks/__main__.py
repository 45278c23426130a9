"""Run every benchmark, print a table, write ``build/bench.json``: one flat object, a key a figure.

A benchmark is a module of this package with ``figures() -> dict[str, float]``; naming some runs only those.
"""

import importlib
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

MODULES = ("brokerage", "matching", "passes", "cycle", "lifecycle", "memory")
RESULT = Path("build/bench.json")


def main() -> None:
    """Measure, show, keep."""
    names = sys.argv[1:] or MODULES
    console = Console()
    figures: dict[str, float] = json.loads(RESULT.read_text()) if RESULT.exists() and sys.argv[1:] else {}
    for name in names:
        with console.status(f"measuring {name} …"):
            figures |= importlib.import_module(f"benchmarks.{name}").figures()
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")
    table = Table("figure", "value", title="Pilotage, measured")
    table.columns[1].justify = "right"
    for key, value in sorted(figures.items()):
        table.add_row(key, f"{value:,.2f}" if value < 100 else f"{value:,.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
