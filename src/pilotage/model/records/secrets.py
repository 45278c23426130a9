"""Secrets of payloads: their names, how a task names them, and their bounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from pilotage.model.values.types import CLOSED, DESCRIBED, OutputName

LONGEST_SECRET, SHORTEST_SECRET = 65_536, 4
"""Bytes of a secret in UTF-8. Shorter texts occur in logs by chance, so they could not be hidden there."""

MOST_SECRETS = 100
"""Most secrets of one person."""

MOST_OF_TASK = 20
"""Most secrets that one task names: all of them together fit into a payload's environment."""

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
SecretName = Annotated[str, Field(min_length=1, max_length=100, pattern=NAME)]
"""The name of a secret of one person."""
VariableName = Annotated[str, Field(max_length=100, pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSecret:
    """A secret that a task gives to its payloads, as a variable or as a file."""

    __pydantic_config__ = CLOSED

    name: SecretName
    """Its name among the secrets of the task's owner."""
    variable: VariableName = ""
    """The environment variable that holds it, also written ``as``; empty: of the secret's own name, or none
    where it is a file."""
    file: OutputName | None = None
    """A file that holds it, of mode 0600, in the folder ``PILOTAGE_SECRETS``; none: a variable."""

    @property
    def in_variable(self) -> str:
        """Return the variable that holds it; empty if only a file does."""
        return self.variable or ("" if self.file else self.name)


def _from_name(value: object) -> object:
    """A name alone is a variable of that name; ``as`` is a word of Python, so the field has another."""
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, Mapping) and "as" in value and "variable" not in value:
        return {("variable" if key == "as" else key): item for key, item in value.items()}
    return value


_WORD = {"type": "string", "maxLength": 100}
_WRITTEN = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": 100, "pattern": NAME},
        {
            "type": "object",
            "properties": {
                "name": {**_WORD, "description": "Its name among the secrets of the task's owner."},
                "as": {**_WORD, "description": "The environment variable that holds it."},
                "variable": {**_WORD, "description": "The same as ``as``."},
                "file": {
                    "type": ["string", "null"],
                    "description": "A file that holds it, in the folder ``PILOTAGE_SECRETS``.",
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    ]
}

GivenSecret = Annotated[
    NamedSecret,
    BeforeValidator(_from_name, json_schema_input_type=Annotated[Any, WithJsonSchema(_WRITTEN)]),
]
"""A secret, or its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSecret:
    """A secret that is set, without its value."""

    __pydantic_config__ = DESCRIBED

    name: str
    """Its name."""
    set_at: float
    """When it was last set, in s since 1970."""


def value_fault(value: Any) -> str:
    """Return why a value cannot be a secret, without the value itself; empty if it can."""
    if not isinstance(value, str):
        return "is no text; give bytes in base64"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "is no text in UTF-8; give bytes in base64"
    if "\0" in value:
        return "holds a null character, which no variable can have; give bytes in base64"
    if size > LONGEST_SECRET:
        return f"has {size} bytes, above {LONGEST_SECRET}; put large files on a storage"
    if size < SHORTEST_SECRET:
        return f"has {size} bytes; give at least {SHORTEST_SECRET}, because logs cannot hide fewer"
    return ""
