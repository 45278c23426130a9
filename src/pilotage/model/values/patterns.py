"""Patterns of names for scanning storages: ``*`` within a folder, ``**`` for any folders."""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase, translate
from functools import lru_cache

WILDCARDS = re.compile(r"[*?\[]")


def is_met(part: str, name: str) -> bool:
    """Return whether one part of a pattern matches one part of a name.

    A name also matches when it is written like the part: ``[`` and ``]`` may belong to it.
    """
    return name == part or fnmatchcase(name, part)


Part = Callable[[str], object]
"""Matches one part of a name."""


@lru_cache(maxsize=1024)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test of whether a name matches a pattern. It takes time linear in the parts of the name.

    The part between two ``**`` is searched once, at its first place: a later place would leave less.
    """
    pieces: list[list[Part]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            pieces.append([])
        else:
            pieces[-1].append(re.compile(f"{translate(part)}|{re.escape(part)}\\Z").match)
    if len(pieces) > 1 and not pieces[-1]:
        # Two stars at the end match the files in any folder.
        pieces[-1].append(re.compile(translate("*")).match)
    first, *following = pieces
    between = [piece for piece in following[:-1] if piece]
    last = following[-1] if following else None
    return lambda name: _match(first, between, last, name.split("/"))


def literal_beginning(pattern: str) -> str:
    """Return the part of a pattern before its first wildcard."""
    wildcard = WILDCARDS.search(pattern)
    return pattern[: wildcard.start()] if wildcard else pattern


def _match(
    first: Sequence[Part],
    between: Sequence[Sequence[Part]],
    last: Sequence[Part] | None,
    names: Sequence[str],
) -> bool:
    """Match the beginning, then the parts between, each at its first place, then the end."""
    if last is None:
        return len(first) == len(names) and _matches_at(first, names, 0)
    at, end = len(first), len(names) - len(last)
    if at > end or not _matches_at(first, names, 0) or not _matches_at(last, names, end):
        return False
    for piece in between:
        while at + len(piece) <= end and not _matches_at(piece, names, at):
            at += 1
        at += len(piece)
        if at > end:
            return False
    return True


def _matches_at(parts: Sequence[Part], names: Sequence[str], at: int) -> bool:
    return all(part(names[at + number]) for number, part in enumerate(parts))
