"""Where the tests of packages have the release and their tools: ``make test-packages`` makes both."""

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
