"""The answers of the server for people, as its OpenAPI document describes them."""

from collections.abc import Mapping
from typing import Any

from pilotage.server.api import PREFIX
from pilotage.server.api.app import document

_OPENAPI = document()


def _answers() -> dict[str, Any]:
    return {
        f"{method.upper()} {path.removeprefix(PREFIX)}": answer["content"]["application/json"]["schema"]
        for path, operations in _OPENAPI["paths"].items()
        for method, operation in operations.items()
        for status, answer in operation["responses"].items()
        if status.startswith("2") and "application/json" in answer.get("content", {})
        if not path.startswith(f"{PREFIX}/pilot/")
    }


ANSWERS: Mapping[str, Any] = _answers()
"""The schema of each operation's answer."""


def choices(schema: Any) -> list[Any]:
    """The schemas of which one must hold, without references."""
    while "$ref" in schema:
        schema = _OPENAPI["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if isinstance(schema.get("type"), list):
        return [schema | {"type": kind} for kind in schema["type"]]
    return (
        [choice for inner in schema["anyOf"] for choice in choices(inner)] if "anyOf" in schema else [schema]
    )


def sample(schema: Any, depth: int = 0) -> Any:
    """A document of a schema: of each kind one value, a list with one element."""
    form = choices(schema)[0]
    match form.get("type"):
        case "object" if "properties" in form:
            return {name: sample(inner, depth + 1) for name, inner in form["properties"].items()} | {
                "next": ""
            }
        case "object":
            inner = form.get("additionalProperties")
            return {"a": sample(inner, depth + 1)} if isinstance(inner, dict) and depth < 8 else {}
        case "array" if depth < 8:
            return [sample(inner, depth + 1) for inner in form.get("prefixItems", [form.get("items", {})])]
    return {"string": "x", "integer": 1, "number": 1.0, "boolean": True, "array": []}.get(form.get("type"))
