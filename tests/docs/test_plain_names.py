"""A name is the noun of what it holds, or the verb of what it does: no participle and no pronoun."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pilotage"

VAGUE = frozenset(
    [
        "one",
        "many",
        "most",
        "others",
        "other",
        "ours",
        "theirs",
        "own",
        "which",
        "whose",
        "what",
        "how",
        "why",
        "where",
        "found",
        "told",
        "known",
        "asked",
        "seen",
        "given",
        "made",
        "taken",
        "wanted",
        "left",
        "held",
        "said",
        "heard",
        "spoken",
        "shown",
        "kept",
        "meant",
        "brought",
        "passed",
        "due",
        "alike",
        "apart",
        "also",
        "anyway",
        "beyond",
        "beside",
        "behind",
    ]
)

ROOMS = (
    ".",
    *("adapters", "agent", "cli", "client", "demo", "explain", "federation", "model", "policies", "ports"),
    *("server", "simulation", "store", "testing"),
    *("flow/loops", "flow/matching", "flow/outside", "flow/steps"),
    "flow/calls",
)
"""Rooms that keep it; the dot is the modules beside them. The others follow."""


def bound_names(module: ast.Module) -> Iterator[str]:
    """Yield each name that a module binds: variables, parameters and functions."""
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


@pytest.mark.parametrize("room", ROOMS)
def test_fewer_than_one_name_in_two_hundred_is_vague(room: str) -> None:
    count, vague = 0, []
    paths = SOURCE.glob("*.py") if room == "." else (SOURCE / room).rglob("*.py")
    for path in sorted(paths):
        for name in bound_names(ast.parse(path.read_text())):
            count += 1
            if name.strip("_") in VAGUE:
                vague.append(f"{path.relative_to(SOURCE)}: {name}")
    assert len(vague) <= count / 200, vague
