"""Modules do not import each other in circles: what two of them share stands below both."""

from graphlib import CycleError, TopologicalSorter

from .modules import SOURCE, Module, modules


def imported(module: Module, package: list[str], names: set[str]) -> set[str]:
    """The modules that one imports where it is loaded, or for its types."""
    found: set[str] = set()
    for node in module.imports:
        above = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        found |= ({f"{base}.{alias.name}" for alias in node.names} & names) or ({base} & names)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    of_name = {}
    for module in modules().values():
        name = ".".join(module.path.relative_to(SOURCE.parent).with_suffix("").parts)
        of_name[name.removesuffix(".__init__")] = module
    graph = {}
    for name, module in of_name.items():
        package = name.split(".") if module.path.name == "__init__.py" else name.split(".")[:-1]
        graph[name] = imported(module, package, set(of_name)) - {name}
    circle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert circle == []
    assert sum(map(len, graph.values())) > 1000
