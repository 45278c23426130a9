"""The forms of the server's answers, for the client: what its OpenAPI document says, in short."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pilotage.server.api import PREFIX
from pilotage.server.api.app import document

ANSWER_FORMS = Path(__file__).parents[2] / "src" / "pilotage" / "client" / "answer_forms.json"

SHALLOW = ("World",)
"""Models of which the client checks no more than fields. Who reads a world checks it with the whole model."""

_REFERENCE = "#/components/schemas/"


def answer_forms() -> str:
    """Return the forms as a file: those of operations, and those of the models that they name."""
    described = document()
    schemas = described["components"]["schemas"]
    operations = {name: _form(schema, schemas) for name, schema in _answers(described)}
    models: dict[str, Any] = {}
    wanted = set(_named(operations.values()))
    while wanted:
        name = wanted.pop()
        fields = schemas[name].get("properties", {})
        forms = {field: _form(schema, schemas) for field, schema in fields.items()}
        models[name] = {field: _shallow(form) for field, form in forms.items()} if name in SHALLOW else forms
        wanted |= set(_named(models[name].values())) - set(models)
    lines = [_lines("operations", operations), _lines("models", dict(sorted(models.items())))]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(name: str, forms: Mapping[str, Any]) -> str:
    rows = (f"{json.dumps(key)}: {json.dumps(form, separators=(',', ':'))}" for key, form in forms.items())
    return f"{json.dumps(name)}: {{\n" + ",\n".join(rows) + "\n}"


def _answers(described: Any) -> Iterator[tuple[str, Any]]:
    """Yield each operation for people with the schema of its answer."""
    for path, operations in sorted(described["paths"].items()):
        for method, operation in sorted(operations.items()):
            short = path.removeprefix(PREFIX)
            schemas = [
                answer["content"]["application/json"]["schema"]
                for status, answer in operation["responses"].items()
                if status.startswith("2") and "application/json" in answer.get("content", {})
            ]
            if schemas and not short.startswith("/pilot/"):
                yield f"{method.upper()} {short}", schemas[0]


def _named(forms: Any) -> Iterator[str]:
    """Yield the names of models in forms."""
    for form in forms:
        if isinstance(form, list):
            yield from _named(form[1:])
        elif form.startswith("#"):
            yield form[1:]


def _form(schema: Any, schemas: Mapping[str, Any]) -> Any:
    """Return the form of a schema: a word, ``#Model``, or a list that begins with its kind."""
    name = schema.get("$ref", "").removeprefix(_REFERENCE)
    if name:
        return f"#{name}" if "properties" in schemas[name] else _form(schemas[name], schemas)
    if "anyOf" in schema:
        return ["one of", *(_form(one, schemas) for one in schema["anyOf"])]
    return _form_of_kind(schema, schemas)


def _shallow(form: Any) -> Any:
    """Return a form that says nothing of what is inside."""
    kind = form[0] if isinstance(form, list) else "map" if form.startswith("#") else form
    return [kind, "anything"] if kind in ("list", "map") else form


def _form_of_kind(schema: Any, schemas: Mapping[str, Any]) -> Any:
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return ["one of", *kind]
    if "prefixItems" in schema:
        return ["tuple", *(_form(one, schemas) for one in schema["prefixItems"])]
    if kind == "array":
        return ["list", _form(schema.get("items", {}), schemas)]
    if kind == "object":
        inner = schema.get("additionalProperties", {})
        return ["map", _form(inner, schemas) if isinstance(inner, dict) else "anything"]
    return kind
