"""The page on what Pilotage withstands has a row for each fault."""

import re
from pathlib import Path

from .faults import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "withstands.md"


def test_the_page_says_of_each_fault_what_must_hold() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE))
    assert {kind: rows.get(kind) for kind in KINDS} == {kind: fault.holds for kind, fault in KINDS.items()}
