"""Places for the storages of the movers' tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Two directories that servers of other users may write."""
    before = os.umask(0)
    made = {name: tmp_path / name for name in ("north", "south")}
    for root in made.values():
        root.mkdir()
    yield made
    os.umask(before)
