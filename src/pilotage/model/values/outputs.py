"""Outputs as tasks name them: names of files, patterns of names, and folders, whose names end in ``/``."""

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from string import ascii_letters, digits

from pilotage.model.values.patterns import WILDCARDS, matcher

_ANY = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]")


def is_taken(asked: str, name: str) -> bool:
    """Return whether an output with this name was requested."""
    return matcher(f"{asked}**" if asked.endswith("/") else asked)(name)


def missing(asked: Sequence[str], optional: Collection[str], stored: Collection[str]) -> list[str]:
    """Return the requested outputs that are not optional and have no stored file."""
    names = {*stored, *optional}
    return [
        one
        for one in asked
        if one not in names and not (is_many(one) and any(is_taken(one, n) for n in stored))
    ]


def taken(asked: Sequence[str], stored: Collection[str]) -> list[str]:
    """Return the names of stored outputs that were requested: those by name first, in the order of the
    request."""
    if not stored:
        return []
    named = [one for one in asked if one in stored]
    many = [one for one in asked if is_many(one)]
    found = (name for name in sorted(stored) if any(is_taken(one, name) for one in many))
    return list(dict.fromkeys((*named, *found)))


def is_many(asked: str) -> bool:
    """Return whether it is a pattern or a folder, which may match any number of files."""
    return asked.endswith("/") or bool(WILDCARDS.search(asked))


def example(asked: str) -> str:
    """Return a name that a payload could give to such an output."""
    return _ANY.sub(_one_taken, f"{asked}1" if asked.endswith("/") else asked)


def _one_taken(wildcard: re.Match[str]) -> str:
    return next((letter for letter in ascii_letters + digits if fnmatchcase(letter, wildcard[0])), "1")
