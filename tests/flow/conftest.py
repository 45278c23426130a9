"""A house on each database in turn."""

from pathlib import Path

import pytest

from pilotage.store import Store

from .house import House


@pytest.fixture
def house(store: Store, tmp_path: Path) -> House:
    return House(store, tmp_path)
