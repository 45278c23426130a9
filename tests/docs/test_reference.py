"""The reference pages say what the code says."""

from pathlib import Path

import pytest

from generate import pages

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.slow
def test_reference_pages_are_up_to_date() -> None:
    stale = [name for name, text in pages().items() if (REFERENCE / name).read_text() != text]
    assert not stale, f"run `make docs` and commit {stale}"
