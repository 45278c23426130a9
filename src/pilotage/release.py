"""The version of this Pilotage with its commit, such as ``0.1.0+0ccbd5dc1234``.

A package, and an archive that git writes, have the commit in ``commit.txt``. A clone asks git.
"""

import subprocess
from functools import cache
from importlib import metadata
from importlib.resources import files
from pathlib import Path

DIGITS = 12
"""Digits of a commit that are shown and compared."""

_PLACEHOLDER = "$Format"
"""How the file begins in a clone, where git has not replaced it."""


@cache
def full_version() -> str:
    """Return the version and its commit; only the version if the commit is not known."""
    number, commit = metadata.version("pilotage"), _commit()
    return f"{number}+{commit}" if commit else number


def _commit() -> str:
    packaged = files("pilotage").joinpath("commit.txt").read_text().strip()
    return packaged[:DIGITS] if not packaged.startswith(_PLACEHOLDER) else _commit_of_clone()


def _commit_of_clone() -> str:
    """Return the clone's commit; nothing without git, or if this folder belongs to another repository."""
    command = ["git", "rev-parse", "--show-prefix", f"--short={DIGITS}", "HEAD"]
    folder = Path(__file__).parent
    try:
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    prefix, commit = answer.stdout.splitlines()
    return commit if prefix == "src/pilotage/" else ""
