"""A field of a record is declared once: its column, and who reads and writes it, follow from the record."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pilotage.model.values.identity import Identity
from pilotage.store.database.record_columns import record_columns
from tests.store import more_fields


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_new_field_is_stored_matched_and_shown_without_another_edit(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    empty = request.getfixturevalue("empty_postgresql_url") if kind == "postgresql" else ""
    url = empty or f"sqlite:///{tmp_path / 'store.db'}"
    program = [sys.executable, "-m", more_fields.__name__, url]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_field_of_a_type_without_a_column_is_refused() -> None:
    @dataclass
    class Odd:
        owner: Identity
        places: set[str]

    with pytest.raises(TypeError, match="places"):
        record_columns(Odd)
