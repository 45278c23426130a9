"""Descriptions of records' fields in published schemas, taken from the docstrings below them."""

import ast
import inspect
import textwrap
import threading
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any

_PARSING = threading.Lock()
"""Two threads of Python 3.11 cannot parse at the same time (SystemError)."""


def describe_fields(schema: dict[str, Any], kind: type[Any]) -> None:
    """Add missing descriptions to the fields of a record's JSON schema.

    pydantic can do that itself (``use_attribute_docstrings``), but reads the sources when a record is first
    validated. That would take a third of a server's start, even if no client ever requests a schema.
    """
    with _PARSING:
        for owner in filter(is_dataclass, kind.__mro__):
            for name, text in _docstrings(owner).items():
                if name in schema.get("properties", {}):
                    schema["properties"][name].setdefault("description", text)


@cache
def _docstrings(kind: type[Any]) -> dict[str, str]:
    """Return the docstring below each field that a class itself declares, by the field's name."""
    (declared,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(declared, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(declared.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
