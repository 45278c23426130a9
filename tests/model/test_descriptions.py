"""Every field that a published schema shows says what it is."""

from typing import Any

import pytest

from pilotage.model.decision import Decision
from pilotage.model.documents import json_schema
from pilotage.model.federation import Federation
from pilotage.model.work import TaskSpec
from pilotage.model.world import World


def undescribed(schema: dict[str, Any]) -> list[str]:
    """Fields without a description, and records without one."""
    records = {schema["title"]: schema, **schema.get("$defs", {})}
    fields = {
        f"{title}.{name}": value
        for title, record in records.items()
        for name, value in record.get("properties", {}).items()
    }
    return sorted(name for name, value in {**records, **fields}.items() if not value.get("description"))


@pytest.mark.parametrize("kind", [Federation, TaskSpec, World, Decision])
def test_every_field_has_a_description(kind: type) -> None:
    assert undescribed(json_schema(kind)) == []


def test_a_missing_description_is_noticed() -> None:
    schema = {"title": "A", "description": "An A.", "properties": {"x": {"type": "integer"}}}
    assert undescribed({**schema, "$defs": {"B": {}}}) == ["A.x", "B"]
