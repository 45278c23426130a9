"""A name is the noun of what it holds, or the verb of what it does: no participle and no pronoun."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pilotage"

PRONOUNS = "one many most others other ours theirs own which whose what how why where way ways"
PARTICIPLES = """found told known asked seen given made taken wanted left held said heard spoken shown kept
    meant brought passed due"""
PARTICLES = "alike apart also anyway beyond beside behind"
VAGUE = frozenset(f"{PRONOUNS} {PARTICIPLES} {PARTICLES}".split())


def bound_names(module: ast.Module) -> Iterator[str]:
    """Yield each name that a module binds: variables, parameters and functions."""
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def test_in_each_room_fewer_than_one_name_in_a_hundred_is_vague() -> None:
    """The rest are fields of documents and answers, which others read by name."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0] if path.parent != SOURCE else "."
        names[room] += bound_names(ast.parse(path.read_text()))
    vague = {room: [name for name in bound if name.strip("_") in VAGUE] for room, bound in names.items()}
    assert {room: bound for room, bound in vague.items() if len(bound) > len(names[room]) / 100} == {}
    assert sum(map(len, vague.values())) < sum(map(len, names.values())) / 200
