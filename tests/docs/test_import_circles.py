"""Modules do not import each other in circles: what two of them share stands below both."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def imported(path: Path, package: list[str], modules: set[str]) -> set[str]:
    """The modules that one imports where it is loaded, or for its types."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    inside = {
        node
        for of in ast.walk(tree)
        if isinstance(of, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(of)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in inside:
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = {f"{base}.{alias.name}" for alias in node.names}
            found |= (names & modules) or ({base} & modules)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    paths = {}
    for path in (SOURCE / "pilotage").rglob("*.py"):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        paths[name.removesuffix(".__init__")] = path
    modules = set(paths)
    graph = {}
    for name, path in paths.items():
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        graph[name] = imported(path, package, modules) - {name}
    circle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert circle == []
