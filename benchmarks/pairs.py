"""Measure this tree beside another commit, in turns, since a shared machine changes its speed within hours.

Each round is A B B A, where A is this tree and B the commit. Each letter is one process that measures
one part, with the environment and the benchmarks of its tree. A ratio compares two neighbours.
"""

import json
import subprocess
from collections import defaultdict
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
RESULT = Path("build/bench.json")

Figures = dict[str, float]


def compare(revision: str, parts: list[str], rounds: int, console: Console) -> None:
    """Measure ``parts`` ``rounds`` times in the order A B B A, and print each figure's ratio of A to B.

    Raises:
        subprocess.CalledProcessError: the revision is not there, cannot be installed, or a part failed
    """
    other = checkout(revision, console)
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for part in parts:
        for number in range(rounds):
            with console.status(f"measuring {part}, round {number + 1} of {rounds} …"):
                for ours, theirs in _pairs_of_round(other, part):
                    for key in ours.keys() & theirs.keys():
                        if theirs[key]:
                            ratios[key].append(ours[key] / theirs[key])
    console.print(table(revision, ratios))


def checkout(revision: str, console: Console) -> Path:
    """Return ``build/pairs/COMMIT``, a clone of this repository at that commit, installed."""
    words = ["git", "rev-parse", "--short=12", "--verify", f"{revision}^{{commit}}"]
    commit = subprocess.run(words, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    tree = ROOT / "build" / "pairs" / commit
    with console.status(f"installing {revision} in {tree.relative_to(ROOT)} …"):
        if not tree.exists():
            subprocess.run(
                ["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(tree)], check=True
            )
        subprocess.run(["git", "checkout", "--quiet", commit], cwd=tree, check=True)
        subprocess.run(["make", "--silent", ".venv/.ready"], cwd=tree, check=True)
    return tree


def _pairs_of_round(other: Path, part: str) -> list[tuple[Figures, Figures]]:
    """Return the figures of both trees, twice: measured as A B, then as B A."""
    first = _measure(ROOT, part)
    second = _measure(other, part)
    third = _measure(other, part)
    return [(first, second), (_measure(ROOT, part), third)]


def _measure(tree: Path, part: str) -> Figures:
    """Return what one run of a part measures; an earlier result of that tree is kept."""
    result = tree / RESULT
    earlier = result.read_bytes() if result.exists() else None
    result.unlink(missing_ok=True)
    try:
        python = tree / ".venv" / "bin" / "python"
        words = [str(python), "-m", "benchmarks", "--only", part, "--runs", "1"]
        subprocess.run(words, cwd=tree, check=True, stdout=subprocess.DEVNULL)
        figures: Figures = json.loads(result.read_text())
    finally:
        if earlier is not None:
            result.write_bytes(earlier)
    return {key: value for key, value in figures.items() if not key.endswith(("_min", "_max"))}


def table(revision: str, ratios: dict[str, list[float]]) -> Table:
    table = Table("figure", "least", "median", "most", title=f"This tree, divided by {revision}")
    for column in table.columns[1:]:
        column.justify = "right"
    for key, values in sorted(ratios.items()):
        table.add_row(key, *(f"{value:.2f}" for value in (min(values), median(values), max(values))))
    return table
