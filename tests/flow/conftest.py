"""A house on each database in turn."""

from pathlib import Path

import pytest

from pilotage.store import Store
from tests.watched_reads import _watched_steps

from .house import House

__all__ = ["_watched_steps"]


@pytest.fixture
def house(store: Store, tmp_path: Path) -> House:
    return House(store, tmp_path)
