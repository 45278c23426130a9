"""Outputs as tasks name them: names of files, patterns of names, and folders (names that end in ``/``)."""

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from string import ascii_letters, digits

from pilotage.model.values.patterns import WILDCARDS, matcher

_ANY = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]")


def is_taken(requested: str, name: str) -> bool:
    """Return whether an output with this name was requested."""
    return matcher(f"{requested}**" if requested.endswith("/") else requested)(name)


def missing(requested: Sequence[str], optional: Collection[str], stored: Collection[str]) -> list[str]:
    """Return the requested outputs that are not optional and have no stored file."""
    names = {*stored, *optional}
    return [
        name
        for name in requested
        if name not in names and not (is_many(name) and any(is_taken(name, n) for n in stored))
    ]


def matching_outputs(requested: Sequence[str], stored: Collection[str]) -> list[str]:
    """Return the names of stored outputs that were requested: those by name first, in the order of the
    request."""
    if not stored:
        return []
    named = [name for name in requested if name in stored]
    patterns = [name for name in requested if is_many(name)]
    matches = (name for name in sorted(stored) if any(is_taken(pattern, name) for pattern in patterns))
    return list(dict.fromkeys((*named, *matches)))


def is_many(requested: str) -> bool:
    """Return whether it is a pattern or a folder, which may match any number of files."""
    return requested.endswith("/") or bool(WILDCARDS.search(requested))


def example(requested: str) -> str:
    """Return a name that a payload could give to such an output."""
    return _ANY.sub(_one_taken, f"{requested}1" if requested.endswith("/") else requested)


def _one_taken(wildcard: re.Match[str]) -> str:
    return next((letter for letter in ascii_letters + digits if fnmatchcase(letter, wildcard[0])), "1")
