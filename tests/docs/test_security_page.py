"""The page on security names tests that attack its promises, and these exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text()


def test_each_promise_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| ([^|]+) \| (`tests/[^|]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 20
    for promise, named in rows:
        for file, name in re.findall(r"`([^`:]+)::(\w+)`", named):
            assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), (
                f"{promise}: {file} has no {name}"
            )
