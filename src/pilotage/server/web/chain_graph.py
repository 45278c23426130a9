"""Tasks that come after each other, drawn from left to right. A table beside it has the same as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from pilotage.server.web.drawing import MOST_MARKS, sign, state_class

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y = 150, 40, 50, 14


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A task, and the numbers of its predecessors."""

    id: int
    name: str
    state: str
    before: Sequence[int] = ()
    is_current: bool = False


def graph(nodes: Sequence[GraphNode]) -> Markup:
    """Return tasks in their order, each after those before it; nothing if they are too many to be drawn."""
    ids = {node.id for node in nodes}
    edges = [(before, node.id) for node in nodes for before in node.before if before in ids]
    if not nodes or 3 * len(nodes) + len(edges) > MOST_MARKS:
        return Markup("")
    places = _places(nodes)
    width = max(x for x, _ in places.values()) + BOX_WIDTH + 2
    height = max(y for _, y in places.values()) + BOX_HEIGHT + 2
    lines = [_edge(places[before], places[after]) for before, after in edges]
    label = f"Graph of {len(nodes)} tasks; the table below names what each comes after"
    return Markup(
        f'<svg class="chain" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}">{"".join(lines)}'
        f"{''.join(_box(node, *places[node.id]) for node in nodes)}</svg>"
    )


def _places(nodes: Sequence[GraphNode]) -> Mapping[int, tuple[int, int]]:
    """Return the corner of each box. A column has the tasks with as many before them, at most."""
    depths: dict[int, int] = {}
    rows: dict[int, int] = {}
    places = {}
    for node in nodes:
        depth = 1 + max((depths[before] for before in node.before if before in depths), default=-1)
        depths[node.id] = depth
        row = rows[depth] = rows.get(depth, -1) + 1
        places[node.id] = (1 + depth * (BOX_WIDTH + GAP_X), 1 + row * (BOX_HEIGHT + GAP_Y))
    return places


def _edge(before: tuple[int, int], after: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = before, after
    x1, y1, y2 = x1 + BOX_WIDTH, y1 + BOX_HEIGHT // 2, y2 + BOX_HEIGHT // 2
    middle = (x1 + x2) // 2
    return f'<path d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"/>'


def _box(node: GraphNode, x: int, y: int) -> str:
    name = node.name if len(node.name) <= 15 else f"{node.name[:14]}…"
    look = f"box{' current' if node.is_current else ''}"
    return (
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" class="{look}">'
        f"<title>{escape(node.name)}: {escape(node.state)}</title></rect>"
        f'<rect x="{x}" y="{y}" width="5" height="{BOX_HEIGHT}" class="{state_class(node.state)}"/>'
        f'<text x="{x + 14}" y="{y + 25}">{sign(node.state)} {escape(name)}</text>'
    )
