"""Tasks that come after each other, drawn from left to right. A table beside it has the same as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from pilotage.server.web.drawing import MOST_MARKS, SIGNS, parts

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y = 150, 44, 50, 14


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A task, and the numbers of its predecessors."""

    id: int
    name: str
    state: str
    """In words."""
    look: str
    jobs: Mapping[str, int]
    before: Sequence[int] = ()
    is_current: bool = False


def graph(nodes: Sequence[GraphNode]) -> Markup:
    """Return tasks in their order, each after those before it; nothing if they are too many to be drawn."""
    ids = {node.id for node in nodes}
    edges = [(before, node.id) for node in nodes for before in node.before if before in ids]
    if not nodes or 6 * len(nodes) + len(edges) > MOST_MARKS:
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
        f"<title>{escape(node.name)}: {escape(node.state)}{escape(_in_words(node))}</title></rect>"
        f'<rect x="{x}" y="{y}" width="5" height="{BOX_HEIGHT}" class="{node.look}"/>'
        f'<text x="{x + 14}" y="{y + 21}">{SIGNS[node.look]} {escape(name)}</text>{_progress(node, x, y)}'
    )


def _in_words(node: GraphNode) -> str:
    words = ", ".join(f"{part.count:,} {part.label}" for part in parts(node.jobs))
    return f"; jobs: {words}" if words else ""


def _progress(node: GraphNode, x: int, y: int) -> str:
    """Return a bar of a task's jobs along the bottom of its box."""
    bar_parts, left, top = parts(node.jobs), x + 14.0, y + BOX_HEIGHT - 10
    whole, width = sum(part.count for part in bar_parts), BOX_WIDTH - 24
    rectangles = []
    for part in bar_parts:
        length = width * part.count / whole
        rectangles.append(
            f'<rect x="{left:.1f}" y="{top}" width="{length:.1f}" height="5" class="{part.look}"/>'
        )
        left += length
    return "".join(rectangles)
