"""Commands of batch systems that answer as a test wants: shell scripts under their names."""

from collections.abc import Mapping
from pathlib import Path


def commands(folder: Path, scripts: Mapping[str, str]) -> str:
    """A directory with these commands; ``$S`` is a directory in which scripts keep what they like."""
    state = folder / "state"
    state.mkdir(parents=True, exist_ok=True)
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\nS={state}\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def lines(folder: Path, name: str) -> list[str]:
    """The lines that scripts wrote into a file of ``$S``."""
    file = folder / "state" / name
    return file.read_text().splitlines() if file.exists() else []
