"""Where the tests of packages have the release, their tools and the page."""

from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
BUILD = ROOT / "build" / "packages"
TOOLS = BUILD / "tools" / "bin"
ROOTS = BUILD / "roots"


def release_file(ending: str) -> Path:
    """Return the file of the release with this ending."""
    (path,) = DIST.glob(f"pilotage-*{ending}")
    return path


def page_commands(after: str) -> str:
    """Return the lines of commands that follow a text of the page on installation."""
    page = (ROOT / "docs" / "how-to" / "install.md").read_text().partition(f"{after}\n\n")[2]
    lines = takewhile(lambda line: line.startswith("    "), page.splitlines(keepends=True))
    return "".join(line.removeprefix("    ") for line in lines)
