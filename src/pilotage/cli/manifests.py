"""Manifests: files that lie at a storage, a line each, of which those that cannot be read are told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from pilotage.model.documents.serialization import from_document
from pilotage.model.records.work import InputFile
from pilotage.model.values.paths import FILE_NAMES, is_file_name
from pilotage.model.values.types import plain_checksum

from .errors import BadInput
from .output import one_line

LONGEST_LINE = 4096
"""Bytes of a line; a longer one is no file's."""

MOST_FAULTY = 10_000
"""Lines that may be faulty: a file that has more is no manifest."""

EXAMPLE = "runs/7/events.root,1048576,adler32:0a1b2c3d"
HEADER = "name,size"
"""The beginning of a first line that names the columns."""


def entries(manifest: Path, storage: str, left_out: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read descriptions of files, each with where it stands; what is none is told in ``left_out``.

    Lines are ``NAME,SIZE,CHECKSUM``, the checksum may be left out, or the same as JSON objects. Raises
    BadInput where the manifest cannot be read. Past :data:`MOST_FAULTY` faults nothing more is.
    """
    try:
        with manifest.open("rb") as stream:
            for number, line in _lines(stream):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").strip()
                if not text or (number == 1 and text.lower().startswith(HEADER)):
                    continue
                try:
                    found = {**_entry(text, len(line)), "replicas": [storage]}
                    found["checksum"] = plain_checksum(found["checksum"])
                    _check(found)
                except ValueError as error:
                    if len(left_out) >= MOST_FAULTY:
                        left_out[f"line {number} and all after it"] = f"{MOST_FAULTY} others cannot be read"
                        return
                    left_out[f"line {number}: {one_line(text, 60)}"] = str(error)
                else:
                    yield f"line {number}: {found['name']}", found
    except OSError as error:
        raise BadInput(f"{manifest}: {error}") from error


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Read lines with their numbers; of one that is too long its beginning."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and (rest := stream.readline(1 << 20)):
            pass
        yield number, line


def _entry(line: str, length: int) -> dict[str, Any]:
    """Read one line. Raises ValueError, which says what would be right."""
    if length > LONGEST_LINE:
        raise ValueError(f"longer than {LONGEST_LINE} bytes")
    wrong = ValueError(f"no NAME,SIZE,CHECKSUM such as {EXAMPLE}")
    if line.startswith("{"):
        try:
            found = json.loads(line)
            return {"name": found["name"], "size": found["size"], "checksum": found.get("checksum", "")}
        except (ValueError, KeyError, RecursionError):
            raise wrong from None
    name, *rest = (word.strip() for word in line.split(","))
    if len(rest) not in (1, 2) or not (rest[0].isascii() and rest[0].isdecimal()):
        raise wrong
    return {"name": name, "size": int(rest[0]), "checksum": rest[1] if len(rest) > 1 else ""}


def _check(entry: dict[str, Any]) -> None:
    """Raise ValueError, which says what is wrong of a name, size or checksum."""
    if not isinstance(entry["name"], str) or not is_file_name(entry["name"]):
        raise ValueError(FILE_NAMES)
    try:
        from_document(InputFile, entry)
    except ValidationError as error:
        ((first, *_), words) = error.errors()[0]["loc"], error.errors()[0]["msg"]
        raise ValueError(f"{first}: {words}") from None
