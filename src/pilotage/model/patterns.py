"""Patterns of names, as storages are scanned with them: ``*`` within a folder, ``**`` for any folders."""

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from functools import cache

WILDCARDS = re.compile(r"[*?\[]")

PartPattern = Callable[[str], object]
"""Matches one part of a name; None stands for ``**``."""


@cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return the test of whether a name matches a pattern."""
    parts = [None if part == "**" else re.compile(translate(part)).match for part in pattern.split("/")]
    if parts[-1] is None:
        # Two stars at the end stand for the files in any folder.
        parts.append(re.compile(translate("*")).match)
    return lambda name: _match(parts, name.split("/"))


def literal_beginning(pattern: str) -> str:
    """Return the part of a pattern before its first wildcard."""
    found = WILDCARDS.search(pattern)
    return pattern[: found.start()] if found else pattern


def _match(patterns: Sequence[PartPattern | None], names: Sequence[str]) -> bool:
    """Match a name part by part, each state of the pattern at once: no pattern takes long."""
    states = _with_empty(patterns, {0})
    for name in names:
        following = set()
        for state in states:
            part = patterns[state] if state < len(patterns) else _nothing
            if part is None:
                following.add(state)
            elif part(name):
                following.add(state + 1)
        states = _with_empty(patterns, following)
    return len(patterns) in states


def _with_empty(patterns: Sequence[PartPattern | None], states: set[int]) -> set[int]:
    """Add the states that are reached where ``**`` stands for no folder at all."""
    for state in range(len(patterns)):
        if state in states and patterns[state] is None:
            states.add(state + 1)
    return states


def _nothing(_: str) -> None:
    """Match no part: the pattern is over."""
