"""Merge the tables under ``inputs/`` to ``statistics.csv``, and draw ``statistics.png``, given matplotlib."""

import csv
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, GRID = "#1f2933", "#6b7785", "#e4e8ec"
SHALLOW_TO_DEEP = ["#b9dbe8", "#6fb3cf", "#2f7fa8", "#164b72"]
Table = list[dict[str, str]]


def read(directory: Path) -> tuple[list[str], Table]:
    """Return the columns and all rows, sorted by module.

    Raises ``ValueError`` if the tables do not fit together.
    """
    columns: list[str] = []
    rows: Table = []
    for path in sorted(directory.rglob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows.extend(reader)
            header = list(reader.fieldnames or ())
        if columns and header != columns:
            raise ValueError(f"{path} has columns {header}, the tables before it {columns}")
        columns = header
    if not rows:
        raise ValueError(f"no rows in the tables under {directory}")
    return columns, sorted(rows, key=lambda row: row["module"])


def write(columns: Sequence[str], rows: Table, path: Path) -> None:
    """Write the merged table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def package_of(module: str) -> str:
    """Return the package of a module such as ``python/json/decoder.py``; empty if it has none."""
    parts = module.split("/")
    return parts[1] if len(parts) > 2 else ""


def largest_packages(rows: Table, number: int = 14) -> list[tuple[str, int, int]]:
    """Return name, tokens and modules of the largest packages, largest first."""
    tokens: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for row in rows:
        package = package_of(row["module"])
        tokens[package] += int(row["tokens"])
        modules[package] += 1
    ordered = sorted(tokens.keys() - {""}, key=lambda name: (-tokens[name], name))[:number]
    return [(name, tokens[name], modules[name]) for name in ordered]


def draw(rows: Table, path: Path) -> None:
    """Draw complexity against tokens, one point per module, beside the largest packages."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    style: Any = {
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": GRID,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "grid.color": GRID,
    }
    layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.12)
    with pyplot.rc_context(style):
        figure, (modules, packages) = pyplot.subplots(
            1, 2, figsize=(13, 6.2), width_ratios=(1.45, 1), layout=layout
        )
        draw_modules(modules, rows)
        draw_packages(packages, rows)
        total = sum(int(row["tokens"]) for row in rows)
        figure.suptitle(
            f"The Python standard library: {len(rows)} modules, {total:,} tokens",
            x=0.012,
            ha="left",
            fontsize=15,
            fontweight="bold",
        )
        figure.savefig(path, dpi=120)


def draw_modules(axes: "Axes", rows: Table) -> None:
    """Draw a point per module, coloured by its nesting depth. Name the most complex ones."""
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.ticker import NullLocator

    counted = [row for row in rows if int(row["tokens"]) > 0]
    tokens = [int(row["tokens"]) for row in counted]
    decisions = [int(row["complexity"]) for row in counted]
    depth = [int(row["nesting"]) for row in counted]
    bounds = (0, 2, 4, 6, 100)
    axes.scatter(
        tokens,
        decisions,
        c=depth,
        s=26,
        cmap=ListedColormap(SHALLOW_TO_DEEP),
        norm=BoundaryNorm(bounds, len(SHALLOW_TO_DEEP)),
        edgecolors="white",
        linewidths=0.5,
    )
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="cyclomatic complexity")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,.0f}")
        axis.set_minor_locator(NullLocator())
    axes.set_title("Modules", loc="left", color=MUTED)
    axes.grid(which="major")
    labels = ["0–1", "2–3", "4–5", "6 and more"]
    for colour, label in zip(SHALLOW_TO_DEEP, labels, strict=True):
        axes.scatter([], [], s=26, color=colour, label=label)
    axes.legend(title="depth of blocks", loc="upper left", frameon=False, alignment="left")
    for row in most_complex(counted):
        name = row["module"].rpartition("/")[2]
        place = (int(row["tokens"]), int(row["complexity"]))
        axes.annotate(name, place, (-7, 0), textcoords="offset points", ha="right", va="center", fontsize=8)


def most_complex(rows: Table, number: int = 3) -> Table:
    """Return the leading modules, each a fifth below the one before, so that their names do not touch."""
    chosen: Table = []
    for row in sorted(rows, key=lambda row: (-int(row["complexity"]), row["module"])):
        if not chosen or int(row["complexity"]) < 0.8 * int(chosen[-1]["complexity"]):
            chosen.append(row)
    return chosen[:number]


def draw_packages(axes: "Axes", rows: Table) -> None:
    """Draw the largest packages by tokens, with their number of modules."""
    packages = largest_packages(rows)[::-1]
    bars = axes.barh(
        [name for name, _, _ in packages], [tokens for _, tokens, _ in packages], color=SHALLOW_TO_DEEP[1]
    )
    labels = [f"{tokens:,} in {modules}" for _, tokens, modules in packages]
    axes.bar_label(bars, labels, padding=4, fontsize=8, color=MUTED)
    axes.set_title("Largest packages: tokens in modules", loc="left", color=MUTED)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.get_xaxis().set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.margins(x=0.14)


if __name__ == "__main__":
    names, table = read(Path("inputs"))
    write(names, table, Path("statistics.csv"))
    if find_spec("matplotlib"):
        draw(table, Path("statistics.png"))
    print(f"{len(table)} modules merged")
    sys.exit(0)
