"""Places for the storages of the movers' tests."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory of the test that other users may enter, as XRootD must.

    It is none of pytest's: every run of tests shuts the folder of all runs to other users when it starts.
    """
    with TemporaryDirectory(prefix="pilotage-movers-", ignore_cleanup_errors=True) as made:
        place = Path(made)
        place.chmod(0o755)
        yield place


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Two directories that servers of other users may write."""
    before = os.umask(0)
    made = {name: tmp_path / name for name in ("north", "south")}
    for root in made.values():
        root.mkdir()
    yield made
    os.umask(before)
