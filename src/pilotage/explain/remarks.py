"""Remarks as text, the same for the terminal, the API and the page."""

from collections.abc import Iterable, Iterator
from typing import Protocol


class ShownRemark(Protocol):
    """A remark, or a client's record of one."""

    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def action(self) -> str: ...
    @property
    def command(self) -> str: ...


def numbered(text: str, rule: str, rules: bool) -> str:
    """Return a text; with ``rules`` append the number of its rule."""
    return f"{text} ({rule})" if rules and rule else text


def sentence(remark: ShownRemark, rules: bool = False) -> str:
    """Return the fact and what to do about it; with ``rules`` include the number of its rule."""
    return f"{numbered(remark.text, remark.rule, rules)}{', ' if remark.action else ''}{remark.action}"


def lines(remarks: Iterable[ShownRemark], rules: bool = False) -> Iterator[str]:
    """Yield a line for each remark, and below it its command."""
    for remark in remarks:
        yield f"{'warning: ' if remark.kind == 'warning' else ''}{sentence(remark, rules)}"
        if remark.command:
            yield f"    do: {remark.command}"
