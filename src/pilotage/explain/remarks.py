"""Remarks as text, for every surface alike."""

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
    """Return a text with the number of its rule, where ``rules`` are wanted."""
    return f"{text} ({rule})" if rules and rule else text


def sentence(one: ShownRemark, rules: bool = False) -> str:
    """Return the fact and what somebody can do, with the number of its rule where ``rules`` are wanted."""
    return f"{numbered(one.text, one.rule, rules)}{', ' if one.action else ''}{one.action}"


def lines(found: Iterable[ShownRemark], rules: bool = False) -> Iterator[str]:
    """Yield a line for each remark, and below it the command that goes with it."""
    for one in found:
        yield f"{'warning: ' if one.kind == 'warning' else ''}{sentence(one, rules)}"
        if one.command:
            yield f"    do: {one.command}"
