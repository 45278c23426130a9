"""Add records to a federation's file as text, so that its comments, order and layout stay."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from pilotage.federation.faults import BadDocument, Fault
from pilotage.federation.text import parse, render


def added(text: str, records: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the text with records appended to lists, given by the lists' names.

    Raises BadDocument if a list is not written with one dash per record.
    """
    if text.strip():
        parse(text)  # the loader below bounds neither depth nor aliases
    for part, new in records.items():
        text = _with(text, part, new)
    return text


def _with(text: str, part: str, new: Sequence[Mapping[str, Any]]) -> str:
    lines = text.splitlines()
    # Use only the line numbers of its nodes: rewriting the file would lose its comments.
    root = yaml.compose(text, Loader=yaml.CSafeLoader) if text.strip() else None
    if root is not None and not (isinstance(root, yaml.MappingNode) and not root.flow_style):
        raise BadDocument([Fault((), "is not a YAML mapping of a line for each key", "write it as one")])
    node = next((value for key, value in root.value if key.value == part), None) if root is not None else None
    if node is None:
        return "\n".join([*lines, f"{part}:", *_items(new, 2), ""])
    if not isinstance(node, yaml.SequenceNode) or node.flow_style or not node.value:
        raise BadDocument([Fault((part,), "is not a list with dashes", "write each record after a dash")])
    at = _end(node) + 1
    return "\n".join([*lines[:at], *_items(new, node.start_mark.column), *lines[at:], ""])


def _items(new: Sequence[Mapping[str, Any]], indent: int) -> list[str]:
    return [" " * indent + line for line in render([dict(record) for record in new]).splitlines()]


def _end(node: yaml.Node) -> int:
    """Return the line, from 0, of the end of a node's last value. Comments may follow."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    mark = node.end_mark
    assert mark is not None
    at: int = mark.line
    # A block of text ends at the start of the next line.
    return at - 1 if mark.column == 0 and at > node.start_mark.line else at
