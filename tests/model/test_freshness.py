"""What was read of the store holds for its seconds, and not once the clock was set back."""

import pytest

from pilotage.model.values.durations import KNOWN_FOR, is_fresh


@pytest.mark.parametrize(
    ("passed", "holds"), [(0, True), (KNOWN_FOR, True), (KNOWN_FOR + 0.1, False), (-0.1, False)]
)
def test_what_was_read_holds_for_its_seconds_only(passed: float, holds: bool) -> None:
    assert is_fresh(1000.0, 1000.0 + passed) is holds
