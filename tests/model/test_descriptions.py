"""Every field that a published schema shows says what it is."""

import ast
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.serialization import json_schema
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation
from pilotage.model.records.work import TaskSpec
from pilotage.simulation.scenario import Scenario

SOURCE = Path(__file__).parents[2] / "src" / "pilotage"


def undescribed(schema: dict[str, Any]) -> list[str]:
    """Fields without a description, and records without one."""
    records = {schema["title"]: schema, **schema.get("$defs", {})}
    fields = {
        f"{title}.{name}": value
        for title, record in records.items()
        for name, value in record.get("properties", {}).items()
    }
    return sorted(name for name, value in {**records, **fields}.items() if not value.get("description"))


@pytest.mark.parametrize("kind", [Federation, TaskSpec, World, Decision, Scenario])
def test_every_field_has_a_description(kind: type) -> None:
    assert undescribed(json_schema(kind)) == []


def test_a_missing_description_is_noticed() -> None:
    schema = {"title": "A", "description": "An A.", "properties": {"x": {"type": "integer"}}}
    assert undescribed({**schema, "$defs": {"B": {}}}) == ["A.x", "B"]


def bare_fields(declared: ast.ClassDef) -> list[str]:
    """Fields of a class without a docstring below them."""
    return [
        f"{declared.name}.{field.target.id}"
        for field, below in pairwise([*declared.body, ast.Pass()])
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and "ClassVar" not in ast.unparse(field.annotation)
        and not (isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant))
    ]


@pytest.mark.slow
def test_every_field_of_every_document_has_a_description() -> None:
    """Also of documents without a published schema: options of plugins and computing elements, recordings."""
    documents = [
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(
            isinstance(part, ast.Assign) and "__pydantic_config__" in ast.unparse(part) for part in node.body
        )
    ]
    assert len(documents) > 100
    assert [field for declared in documents for field in bare_fields(declared)] == []
