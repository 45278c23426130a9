"""Manifests: lists of files at a storage, one per line. Unreadable lines are reported."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.output import one_line
from pilotage.model.documents.serialization import from_document
from pilotage.model.records.work import InputFile
from pilotage.model.values.paths import FILE_NAMES, is_file_name
from pilotage.model.values.types import plain_checksum

LONGEST_LINE = 4096
"""Most bytes of a line."""

MOST_FAULTY = 10_000
"""Most faulty lines: a file with more is no manifest."""

EXAMPLE = "runs/7/events.root,1048576,adler32:0a1b2c3d"
_JSON = re.compile(r'\{\s*"')
_LINE = re.compile(
    r'(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<name>[^"].*?))\s*,\s*(?P<size>[0-9]+)'
    r"\s*(?:,\s*(?P<checksum>[^,]*?)\s*)?"
)
HEADER = "name,size"
"""The beginning of a first line with column names."""


def entries(manifest: Path, storage: str, left_out: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield descriptions of files with their lines. Faulty lines go into ``left_out``.

    A line is ``NAME,SIZE,CHECKSUM``, where the checksum is optional, or a JSON object with the same content.
    Raises BadInput if the manifest cannot be read. After ``MOST_FAULTY`` faults the reading stops.
    """
    try:
        with manifest.open("rb") as stream:
            for number, line in _lines(stream):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape").strip()
                if not text or (number == 1 and text.lower().startswith(HEADER)):
                    continue
                try:
                    entry = {**_entry(text, len(line)), "replicas": [storage]}
                    entry["checksum"] = plain_checksum(entry["checksum"])
                    _check(entry)
                except ValueError as error:
                    if len(left_out) >= MOST_FAULTY:
                        left_out[f"line {number} and all after it"] = f"{MOST_FAULTY} others cannot be read"
                        return
                    left_out[f"line {number}: {one_line(text, 60)}"] = str(error)
                else:
                    yield f"line {number}: {entry['name']}", entry
    except OSError as error:
        raise BadInput(f"{manifest}: {error}") from error


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their numbers, and only the beginning of a line that is too long."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and (rest := stream.readline(1 << 20)):
            pass
        yield number, line


def _entry(line: str, length: int) -> dict[str, Any]:
    """Parse one line. Raises ValueError with an example of a right one."""
    if length > LONGEST_LINE:
        raise ValueError(f"longer than {LONGEST_LINE} bytes")
    wrong = ValueError(f"no NAME,SIZE,CHECKSUM such as {EXAMPLE}")
    if _JSON.match(line):
        try:
            entry = json.loads(line)
            return {"name": entry["name"], "size": entry["size"], "checksum": entry.get("checksum", "")}
        except (ValueError, KeyError, RecursionError):
            raise wrong from None
    # The name may hold commas and quotes. In quotes, it may also begin and end with blanks.
    if (match := _LINE.fullmatch(line)) is None:
        raise wrong
    name = match["name"] if match["quoted"] is None else match["quoted"].replace('""', '"')
    return {"name": name, "size": int(match["size"]), "checksum": match["checksum"] or ""}


def _check(entry: dict[str, Any]) -> None:
    """Raise ValueError that names the fault of a name, size or checksum."""
    if not isinstance(entry["name"], str) or not is_file_name(entry["name"]):
        raise ValueError(FILE_NAMES)
    try:
        from_document(InputFile, entry)
    except ValidationError as error:
        ((first, *_), words) = error.errors()[0]["loc"], error.errors()[0]["msg"]
        raise ValueError(f"{first}: {words}") from None
