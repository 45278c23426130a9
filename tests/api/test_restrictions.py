"""Operators drain and close places with a reason that everybody's terminal can show."""

import pytest
from starlette.testclient import TestClient

from .conftest import House


@pytest.mark.parametrize("because", ["disk\x00full", "disk\x1b[2Jfull", "disk\nfull", ""])
def test_a_reason_is_one_line_that_any_store_keeps(operator: TestClient, house: House, because: str) -> None:
    wanted = {"mode": "drain", "because": because}
    assert operator.put("/restrictions/queue/north-queue", json=wanted).status_code == 422
    assert house.store.restrictions() == ()
