"""Why a command found no program or file: containment hides it, or a script's interpreter is missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from .view import View, unseen

MOST_INTERPRETERS = 4
"""Longest chain of scripts that name each other as interpreter; kernels follow no more."""
MOST_NAMED = 100
"""Most paths in a command's arguments that are looked at."""
_PATH = re.compile(r"""(?<![^\s'"=;&|(`:])/[^\s'"=;&|)`:<>]+""")
_ENV_WORD = re.compile(r"-|[A-Za-z_][A-Za-z0-9_]*=")
"""Options of ``env``, and variables that it sets: the program comes after them."""


def start_hint(command: Sequence[str], directory: Path, search: str, view: View) -> str:
    """Return why a command's program could not be started; empty if that is unknown.

    A program or an interpreter is hidden by the containment, or an interpreter is not there. ``search`` is
    the payload's search path.
    """
    for path, role in _needed(command, directory, search):
        if not path.exists():
            return f": {role}{str(path)!r} is not there" if role else ""
        if hidden := _hidden(view, path, role):
            return hidden
    return ""


def exit_hint(command: Sequence[str], directory: Path, search: str, view: View) -> str:
    """Return which program or named file a failed command could not find because it is hidden; else empty."""
    named = [Path(text) for argument in command[1:] for text in _PATH.findall(argument)]
    for path, role in (*_needed(command, directory, search), *((path, "") for path in named[:MOST_NAMED])):
        if path.exists() and (hidden := _hidden(view, path, role)):
            return hidden
    return ""


def _hidden(view: View, path: Path, role: str) -> str:
    hidden = None if view.mechanism == "none" else unseen(view, path)
    return (
        hidden
        and (
            f": {role}{hidden} is there at this node, but contained payloads do not see it; the queue's "
            "option computing_element.readable_paths shows it to them "
            f"(readable_paths: [{hidden.parent}])"
        )
    ) or ""


def _needed(command: Sequence[str], directory: Path, search: str) -> Iterator[tuple[Path, str]]:
    """Yield a command's program, and the interpreters that scripts name in their first lines."""
    # Look where the node's own user would find it: a name without a slash is in the search path.
    program = shutil.which(command[0], path=search)
    path, role = directory / (program or command[0]), ""
    for _ in range(MOST_INTERPRETERS):
        yield path, role
        named = _interpreter(path, search)
        if named is None:
            return
        path, role = named, "its interpreter "


def _interpreter(path: Path, search: str) -> Path | None:
    """Return the interpreter that a script's first line names; None of a program, or if it is unknown."""
    try:
        with path.open("rb") as file:
            first = file.readline(1000)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    # The kernel ends the name at a blank or a tab only: a carriage return belongs to it.
    words = re.split(r"[ \t]+", first[2:].decode(errors="replace").strip(" \t\n"))
    return (
        _by_env(words[1:], search) if Path(words[0]).name == "env" else Path(words[0]) if words[0] else None
    )


def _by_env(words: Sequence[str], search: str) -> Path | None:
    """Return the program that ``env`` looks for in the search path."""
    for word in words:
        if not _ENV_WORD.match(word):
            program = shutil.which(word, path=search)
            return Path(program) if program else None
    return None
