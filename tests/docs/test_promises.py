"""The pages of promises and of security name the tests that show each promise, and these exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["docs/reference/promises.md", "docs/explanation/security.md"])
def test_each_promise_names_tests_that_exist(page: str) -> None:
    rows = re.findall(r"^\| ([^|]+) \| (`tests/[^|]+) \|$", (ROOT / page).read_text(), re.MULTILINE)
    assert len(rows) > 20
    for promise, named in rows:
        for file, name in re.findall(r"`([^`:]+)::(\w+)`", named):
            assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), (
                f"{promise}: {file} has no {name}"
            )


def test_every_row_of_promises_names_a_test() -> None:
    lines = (ROOT / "docs/reference/promises.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith(("| promise", "| ---"))]
    assert [row for row in rows if "`tests/" not in row] == []
