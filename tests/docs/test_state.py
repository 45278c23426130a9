"""Two Pilotages live in one process: below the runtime no module keeps anything of one, or reads the time."""

import ast
import re
from collections.abc import Iterator

from .modules import Module, modules

BELOW = (
    *("model", "policies", "explain", "federation", "store", "ports"),
    *("adapters/computing", "adapters/movers", "adapters/catalogues"),
)
"""The rooms below the flow."""

REMEMBERED = {
    ("model/documents/serialization.py", "_ADAPTERS"),
    ("adapters/movers/storages/backend.py", "_offered"),
    ("store/database/rows.py", "_compiled"),
}
"""What a class or a statement is by itself, whoever asks: the same for every Pilotage."""

CHANGING = {
    *("append", "add", "update", "setdefault", "extend", "insert"),
    *("pop", "popitem", "clear", "remove", "discard"),
}
"""Methods that change what they are called of."""


def modules_of(*rooms: str) -> Iterator[tuple[str, Module]]:
    """The modules of some rooms by path, but for migrations."""
    for path, module in modules().items():
        if path.startswith(tuple(f"{room}/" for room in rooms)) and "/versions/" not in path:
            yield path, module


def changed_names(tree: ast.Module) -> set[str]:
    """Names of a module that its functions change, or bind anew."""
    own = {
        node.id
        for part in tree.body
        if isinstance(part, ast.Assign | ast.AnnAssign)
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        changed: ast.expr | None = None
        if isinstance(node, ast.Global):
            found.update(node.names)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            changed = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changed = node.func.value if node.func.attr in CHANGING else None
        if isinstance(changed, ast.Name):
            found.add(changed.id)
    if not found & own:
        return set()
    local = {
        name.id
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in ast.walk(function)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    return (found & own) - local


def test_no_module_below_the_flow_keeps_state() -> None:
    found = {(path, name) for path, module in modules_of(*BELOW) for name in changed_names(module.tree)}
    assert found == REMEMBERED


def test_what_a_process_remembers_does_not_depend_on_its_settings() -> None:
    """A function whose answer is kept for good reads no variable of the environment."""
    for path, module in modules_of(*BELOW):
        if "cache" not in module.text:
            continue
        for function in ast.walk(module.tree):
            if isinstance(function, ast.FunctionDef) and re.search(
                r"\bcache\b|lru_cache", " ".join(ast.unparse(one) for one in function.decorator_list)
            ):
                assert not re.search(r"Settings\(|os\.environ|getenv|Path\.home", ast.unparse(function)), path


CLOCKS = r"(time\.(time|sleep|time_ns)|datetime\.now|date\.today|threading\.Thread)"


def test_steps_calls_and_what_is_below_read_no_time_and_start_no_thread() -> None:
    """Adapters do, behind their ports; time that passes (``monotonic``) bounds waits for a database."""
    rooms = [room for room in BELOW if not room.startswith(("adapters/", "ports"))]
    found = [
        (path, ast.unparse(node))
        for path, module in modules_of(*rooms, "flow/steps", "flow/calls")
        if re.search(CLOCKS, module.text)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and re.fullmatch(CLOCKS, ast.unparse(node.func))
    ]
    # Waiting for a database that another process holds needs both; so does its clock.
    assert {path for path, _ in found} == {
        *("store/database/writer_lock.py", "store/database/reach.py", "store/database/engine.py"),
        *("store/clock.py", "store/history/settled_numbers.py"),
    }
