"""The outputs of a payload: files given by name, by pattern or by folder."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ..machine import MEGABYTE
from ..payload.attempt import RESERVED, Attempt, AttemptFailedError, legal

MOST_FILES, MOST_BYTES, LONGEST_NAME = 1000, 10**12, 200
"""Limits for patterns and folders of an attempt: number of files, bytes of all together, characters of a
name."""
MOST_NAMED = 5
"""Links that are named."""
DEEPEST = 16
"""Most parts of a path. The search does not enter deeper folders."""
MOST_LOOKED_AT = 100_000
"""Most files and folders that a search visits."""
_WILDCARD = re.compile(r"[*?\[]")


def find(
    names: Sequence[str],
    directory: Path,
    optional: Collection[str] = (),
    skipped: list[str] | None = None,
) -> list[str]:
    """Find outputs. Return their paths in the directory, which are also their names at the storage.

    A plain name counts even if no such file exists, unless it is ``optional``. Raises AttemptFailedError if a
    required pattern or folder matches nothing, or if they match too much. Links and special files that match
    are none of them; they go into ``skipped``.
    """
    links: list[str] = [] if skipped is None else skipped
    patterns = [name for name in names if name.endswith("/") or _WILDCARD.search(name)]
    named = (name for name in names if name not in patterns)
    # Keep a dangling link: storing it fails with a clear message.
    paths = [name for name in named if name not in optional or os.path.lexists(directory / name)]
    unmet, size = set(patterns), 0
    for path, length in _files(directory, patterns) if patterns else ():
        met = {pattern for pattern in patterns if _looks(pattern, path) and matches(pattern, path)}
        if length is None:
            links += [path] if any(_meets(pattern, path) for pattern in patterns) else []
            continue
        if not met or path in paths:
            continue
        unmet -= met
        size += length
        paths.append(_usable(path))
        if len(paths) > MOST_FILES or size > MOST_BYTES:
            raise AttemptFailedError(
                f"outputs: more than {MOST_FILES} files, or {MOST_BYTES} bytes, are found"
            )
    for pattern in sorted(unmet.difference(optional)):
        if not any(matches(pattern, path) for path in paths):
            met_links = [link for link in links if _meets(pattern, link)]
            raise AttemptFailedError(
                f"output {pattern}: the payload left no such file{skipped_note(met_links)}"
            )
    return paths


def _looks(pattern: str, path: str) -> bool:
    """Return whether a pattern looks at a path.

    The directory is the payload's home, where programs leave their hidden files: only a pattern that begins
    with a dot finds those. Deeper ones are files like any other.
    """
    return pattern.startswith(".") or not path.startswith(".")


def _meets(pattern: str, link: str) -> bool:
    """Return whether a pattern matches a link, or might match a file behind it."""
    return matches(pattern, link) or matches(pattern, f"{link}/x")


def skipped_note(skipped: Sequence[str]) -> str:
    """Return a note on links and special files that match; empty if there are none."""
    if not skipped:
        return ""
    more = f" and {len(skipped) - MOST_NAMED} more" if len(skipped) > MOST_NAMED else ""
    names = ", ".join(name[:LONGEST_NAME] for name in sorted(skipped)[:MOST_NAMED])
    return f"; links and special files are not stored: {names}{more}"


def most_bytes(attempt: Attempt) -> int:
    """Return the most bytes that an attempt's outputs may have: its work directory, and inputs that it passes
    on."""
    limit = int(attempt.work.workdir * MEGABYTE)
    return limit + sum(file.size for file in attempt.order.inputs) if limit else MOST_BYTES


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches a path: ``*`` within a folder, ``**`` any folders, ``/`` at the
    end."""
    if pattern.endswith("/"):
        pattern += "**"
    parts = pattern.split("/")
    if parts[-1] == "**":
        parts.append("*")
    # The numbers of the parts that may match the path so far.
    reached = _with_none(parts, {0})
    for name in path.split("/"):
        following = set()
        for number in reached:
            if number < len(parts) and _is_met(parts[number], name):
                following.add(number if parts[number] == "**" else number + 1)
        reached = _with_none(parts, following)
    return len(parts) in reached


def _is_met(part: str, name: str) -> bool:
    """Return whether one part of a pattern matches a name, or is written like it: it may hold ``[``."""
    return part in ("**", name) or fnmatchcase(name, part)


def _with_none(parts: Sequence[str], reached: set[int]) -> set[int]:
    """Return the same set, with the parts reached if each ``**`` matches no folder."""
    for number, part in enumerate(parts):
        if part == "**" and number in reached:
            reached.add(number + 1)
    return reached


def _files(directory: Path, patterns: Sequence[str]) -> Iterator[tuple[str, int | None]]:
    """Yield path and size of regular files; None is the size of links and special files.

    Skip files that the agent put there.
    """
    remaining, front = MOST_LOOKED_AT, [""]
    while front:
        folder = front.pop()
        try:
            entries = sorted(os.scandir(directory / folder), key=lambda entry: entry.name)
        except OSError as error:
            raise AttemptFailedError(f"outputs: {folder or 'the directory'}: {error.strerror}") from error
        remaining -= len(entries)
        if remaining < 0:
            raise AttemptFailedError(f"outputs: more than {MOST_LOOKED_AT} files and folders to look at")
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if path in RESERVED or not any(_looks(pattern, path) for pattern in patterns):
                continue
            if entry.is_file(follow_symlinks=False):
                yield path, entry.stat(follow_symlinks=False).st_size
            elif not entry.is_dir(follow_symlinks=False):
                yield path, None
            elif _is_entered(path, patterns):
                front.append(path)
    return


def _is_entered(path: str, patterns: Sequence[str]) -> bool:
    """Return whether the search enters a folder.

    Raises AttemptFailedError if it should, but the folder is too deep.
    """
    if path.count("/") < DEEPEST - 1:
        return True
    if any(matches(pattern, f"{path}/x") for pattern in patterns):
        raise AttemptFailedError(f"outputs: {path[:200]} lies more than {DEEPEST} folders deep")
    return False


def _usable(path: str) -> str:
    """Return the path if a file may have it as its name. Raises AttemptFailedError."""
    if len(path) > LONGEST_NAME:
        raise AttemptFailedError(f"output {path!r}: longer than {LONGEST_NAME} characters")
    return legal("output", path, deep=True)
