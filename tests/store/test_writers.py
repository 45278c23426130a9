"""Only the commit writes, and a few modules that the architecture page names."""

import re
from pathlib import Path

import pilotage.store

ROOT = Path(pilotage.store.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "architecture.md"

COMMITS = {"commit/commit.py", "matching/matches.py"}
"""What writes decisions. ``commit.py`` is handed its connection by ``store.py``."""


def test_only_commit_and_the_modules_that_the_architecture_page_names_write() -> None:
    writes = re.compile(r"database\.(write|write_directly|run)\(")
    writing = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if not path.is_relative_to(ROOT / "database") and writes.search(path.read_text())
    }
    section = PAGE.read_text().split("## What is written without a decision")[1].split("\n## ")[0]
    named = set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))
    assert named | COMMITS == writing | {"commit/commit.py"}
