"""Where the tests of packages have the release, their tools and the page."""

from collections.abc import Iterable
from itertools import dropwhile, takewhile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
BUILD = ROOT / "build" / "packages"
TOOLS = BUILD / "tools" / "bin"
ROOTS = BUILD / "roots"
PAGES = ROOT / "docs" / "how-to"
INDENT = "    "

MONITORED = "".join(f"monitoring: {step}\n" for step in ("servers", "scrapes", "alerts", "dashboards"))
"""What ``monitoring.py`` prints."""


def release_file(ending: str) -> Path:
    """Return the file of the release with this ending."""
    (path,) = DIST.glob(f"pilotage-*{ending}")
    return path


def page_commands(after: str, page: str = "install") -> str:
    """Return the lines of commands that follow a text of a page: the next block of them."""
    text = (PAGES / f"{page}.md").read_text().partition(after)[2].splitlines(keepends=True)
    block = dropwhile(lambda line: not line.startswith(INDENT), text)
    return _commands(takewhile(lambda line: line.startswith(INDENT), block))


def production_commands() -> str:
    """Return all commands of the page on production, with those of the page that it sends the reader to."""
    link = "(install.md#a-server-by-systemd)"
    before, after = (PAGES / "production.md").read_text().split(link)
    parts = (_commands(part.splitlines(keepends=True)) for part in (before, after))
    return page_commands("## A server, by systemd").join(parts)


def upgrade_commands() -> str:
    """Return the commands that upgrade servers one after the other."""
    return page_commands("## Several servers, one after the other", "upgrade")


def _commands(lines: Iterable[str]) -> str:
    return "".join(line.removeprefix(INDENT) for line in lines if line.startswith(INDENT))
