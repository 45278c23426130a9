"""Files of ended attempts in a folder, and the checkpoint that says which one is next.

The checkpoint is written before a file, with the last attempt that the file will have, and again after it.
So a run that is interrupted writes the same file again, with the same attempts and name.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotage.cli.errors import BadInput, CommandFailure

PAGE = 1000
"""Most attempts of a file: APEL takes no more in a message."""

TextOf = Callable[[Sequence[Any]], str]
ReadPage = Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The attempt after which the next file begins, and the last one of a file that was begun; 0: none."""

    after: int = 0
    last: int = 0

    @classmethod
    def read(cls, path: Path) -> "Checkpoint":
        """Return the checkpoint in a file; the first one if there is none. Raises ``BadInput``."""
        try:
            values = json.loads(path.read_text())
            checkpoint = cls(values["after"], values["last"])
            if type(checkpoint.after) is int and type(checkpoint.last) is int and checkpoint.after >= 0:
                return checkpoint
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError):
            pass
        raise BadInput(f"{path} is no checkpoint of an export; give another file")

    def write(self, path: Path) -> None:
        """Write it in place of the one before."""
        replace_whole(path, json.dumps({"after": self.after, "last": self.last}) + "\n")


def replace_whole(path: Path, text: str) -> None:
    """Write a file so that it is whole at every moment, and on the disk."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def show_attempts(read: ReadPage, text_of: TextOf) -> None:
    """Print all attempts."""
    after, more = 0, True
    while more:
        page = read(after)
        sys.stdout.write(text_of(page["attempts"]))
        after, more = page["next"], page["more"]


def export_files(
    folder: Path, ending: str, checkpoint_file: Path, read: ReadPage, text_of: TextOf
) -> tuple[int, int]:
    """Write all attempts after the checkpoint. Return the numbers of attempts and of files."""
    checkpoint = Checkpoint.read(checkpoint_file)
    folder.mkdir(parents=True, exist_ok=True)
    attempts = files = 0
    while True:
        page = read(checkpoint.after)
        if page["forgotten"] > checkpoint.after and (checkpoint.after or checkpoint.last):
            raise CommandFailure(
                f"attempts {checkpoint.after + 1} to {page['forgotten']} are deleted: the server keeps"
                " 30 days. Begin again with another checkpoint"
            )
        if page["next"] <= checkpoint.after:
            return attempts, files
        # A file that was begun gets the same attempts, though there may be more by now.
        last = checkpoint.last or page["next"]
        Checkpoint(checkpoint.after, last).write(checkpoint_file)
        chosen = [attempt for attempt in page["attempts"] if attempt["id"] <= last]
        if text := text_of(chosen):
            name = f"attempts-{checkpoint.after + 1:012}-{last:012}.{ending}"
            replace_whole(folder / name, text)
            attempts, files = attempts + len(chosen), files + 1
        checkpoint = Checkpoint(last)
        checkpoint.write(checkpoint_file)
