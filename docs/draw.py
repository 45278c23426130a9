"""Draws the pictures of the documentation: an SVG from each ``docs/pictures/*.dot``, by Graphviz.

``make docs`` calls it. It needs Graphviz only if a source has changed.
"""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

PICTURES = Path(__file__).parent / "pictures"
STYLE = (
    "-Gbgcolor=#f8fafc",
    "-Gpad=0.2",
    "-Gfontname=Helvetica,Arial,sans-serif",
    "-Gfontcolor=#334155",
    "-Nfontname=Helvetica,Arial,sans-serif",
    "-Nfontsize=12",
    "-Nshape=box",
    "-Nstyle=rounded,filled",
    "-Nfillcolor=#e0e7ff",
    "-Ncolor=#6366f1",
    "-Nfontcolor=#1e1b4b",
    "-Efontname=Helvetica,Arial,sans-serif",
    "-Efontsize=10",
    "-Ecolor=#64748b",
    "-Efontcolor=#334155",
    "-Earrowsize=0.7",
)
"""A light ground of its own, so that a picture can be read on a dark page too."""


def mark(source: str) -> str:
    """Return the comment that says from which source, in which style, a picture was drawn."""
    return f"<!-- source {hashlib.sha256(repr((source, STYLE)).encode()).hexdigest()} -->"


def stale() -> list[Path]:
    """Return the sources whose picture is missing or older."""
    return [
        source
        for source in sorted(PICTURES.glob("*.dot"))
        if not (drawn := source.with_suffix(".svg")).exists()
        or mark(source.read_text()) not in drawn.read_text()
    ]


def draw(source: Path) -> None:
    """Draw one picture beside its source."""
    text = source.read_text()
    command = ["dot", "-Tsvg", *STYLE]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60)
    # Graphviz's own comments name its version, which says nothing of the picture.
    svg = re.sub(r"<!--.*?-->\s*|<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*", "", done.stdout, flags=re.DOTALL)
    source.with_suffix(".svg").write_text(f"{mark(text)}\n{svg}")


def draw_stale() -> None:
    """Draw what is stale; without Graphviz say what to install."""
    waiting = stale()
    if waiting and not shutil.which("dot"):
        names = ", ".join(source.stem for source in waiting)
        raise SystemExit(f"install Graphviz (its program dot) to draw {names}")
    for source in waiting:
        draw(source)


if __name__ == "__main__":
    draw_stale()
