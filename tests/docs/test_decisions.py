"""Decision records: half a page each, and one that a later one replaced says so at its top."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("0*.md"))
MOST_WORDS = 500


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name[:4])
def test_a_record_is_short_and_says_at_its_top_what_replaced_it(record: Path) -> None:
    text = record.read_text()
    assert len(text.split()) <= MOST_WORDS
    listed = re.search(
        rf"\({record.name}\)[^\n]*superseded in part by (\d+)", (FOLDER / "README.md").read_text()
    )
    at_the_top = "\n\n".join(text.split("\n\n")[1:2])
    assert at_the_top.startswith("*Superseded") == bool(listed)
    assert not listed or f"[decision {listed[1]}]" in at_the_top
