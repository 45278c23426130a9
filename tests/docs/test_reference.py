"""The reference pages say what the code says."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_reference_pages_are_up_to_date() -> None:
    pages: dict[str, str] = runpy.run_path(str(DOCS / "generate.py"))["pages"]()
    stale = [name for name, text in pages.items() if (DOCS / "reference" / name).read_text() != text]
    assert not stale, f"run `make docs` and commit {stale}"
