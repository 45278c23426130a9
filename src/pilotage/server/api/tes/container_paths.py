"""Absolute paths of executors, the folders of the job's directory behind them, and their mounts."""

import re
from collections.abc import Iterable
from posixpath import dirname, normpath

from pilotage.federation.mount_checks import hidden_by

ROOT = "root"
"""The folder of the job's directory that holds all files of executors, by their absolute paths."""

LONGEST_PATH = 190
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEPARATORS = re.compile(r"[:,\\]")
_PLACEHOLDER = re.compile(r"\{(index|seed|first_event)\}")
_ABSOLUTE = "give an absolute path like /data/reads.fastq"


def path_fault(path: str) -> str:
    """Return why executors cannot have a file or folder at a path; empty if they can."""
    if not path.startswith("/"):
        return f"{path[:80]!r} is not absolute; {_ABSOLUTE}"
    if ".." in path.split("/") or _CONTROL.search(path):
        return f"has .. or a control character; {_ABSOLUTE}"
    if len(path) > LONGEST_PATH:
        return f"has more than {LONGEST_PATH} characters; give a shorter one"
    return ""


def output_fault(path: str) -> str:
    """Return the same for an output, in whose name Pilotage would replace placeholders."""
    if _PLACEHOLDER.search(path):
        return "has a placeholder of Pilotage, like {index}; give another name"
    return path_fault(path)


def file_fault(path: str) -> str:
    """Return the same for a file, which needs a folder of its own."""
    return path_fault(path) or folder_fault(dirname(plain(path)))


def folder_fault(folder: str) -> str:
    """Return the same for a folder that is mounted."""
    if fault := path_fault(folder):
        return fault
    if _SEPARATORS.search(folder):
        return "lies in a folder with a colon, comma or backslash in its name; take another folder"
    if plain(folder) == "/":
        return "lies in /, which cannot be mounted; take a folder, like /data"
    if hidden := hidden_by(plain(folder)):
        return f"lies in {plain(folder)}; its mount {hidden}; take another folder, like /data"
    return ""


def plain(path: str) -> str:
    """Return a path without empty parts, and without ``/`` at its end."""
    return "/" + normpath(path).lstrip("/")


def inside(path: str) -> str:
    """Return the path in the job's directory of an executors' path."""
    return f"{ROOT}{plain(path)}"


def mounts(folders: Iterable[str]) -> dict[str, str]:
    """Return the outermost of these folders, each with its folder in the job's directory."""
    outer: list[str] = []
    for folder in sorted(
        {plain(folder) for folder in folders}, key=lambda folder: (folder.count("/"), folder)
    ):
        if not any(folder == other or folder.startswith(f"{other}/") for other in outer):
            outer.append(folder)
    return {folder: inside(folder) for folder in outer}
