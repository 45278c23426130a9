"""The manifest beside fetched outputs: a line a file, with its job, parameters, inputs and checksum."""

import csv
import io
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .destination import REMEDY, Destination
from .errors import FetchFailed
from .output_files import FetchedFile, is_right

NAME = "manifest.csv"
FIRST = ("job", "index")
LAST = ("inputs", "output", "path", "bytes", "checksum")
FORMULA = ("=", "+", "-", "@")
"""With these a cell begins that spreadsheets calculate. Values of parameters stay as the task gave them."""


def write(to: Path, rows: list[dict[str, object]]) -> tuple[str, str]:
    """Write the manifest of outputs. Return its path, or why none is written.

    A file of this name that is no manifest stays as it is, as does an output of this name.
    """
    place = Destination(to, NAME)
    if not rows:
        return "", ""
    if any(row["path"] == NAME for row in rows):
        return "", f"{place.path} is an output of the task"
    try:
        with place.folder() as folder:
            file = folder.open(NAME, os.O_RDONLY)
            if file is not None:
                with file:
                    earlier = file.read().decode("utf-8", "replace")
                if not earlier.startswith(",".join(FIRST)):
                    raise FetchFailed(f"{place.path} is a file of another kind; it stays as it is")
                rows = [*_earlier(earlier, rows, to), *rows]
            part = folder.open(f".{NAME}.part", os.O_RDWR | os.O_CREAT)
            assert part is not None  # made where it was missing
            with part:
                part.truncate(0)
                part.write(_text(rows).encode(errors="backslashreplace"))
            folder.rename(f".{NAME}.part", NAME)
    except FetchFailed as failure:
        return "", str(failure)
    except OSError as error:
        return "", f"{error.filename or place.path}: {error.strerror}"
    return str(place.path), ""


def in_the_way(files: Iterable[FetchedFile], to: Path) -> dict[str, str]:
    """Return why files are refused: another file has their place, which no fetch of their task brought."""
    obstructed = [file for file in files if file.place.path.is_file() and not _is_here(file)]
    listed_outputs = _outputs(to) if obstructed else {}
    reasons = {}
    for file in obstructed:
        listed = listed_outputs.get(file.place.name, "")
        if _task(listed) != _task(file.file):
            origin = (
                f"{listed}, which an earlier fetch brought"
                if listed
                else "another file, which no fetch brought"
            )
            reasons[file.file] = f"{file.file}: {file.place.path} is {origin}; {REMEDY}"
    return reasons


def is_of_others(to: Path, files: Iterable[str]) -> bool:
    """Return whether a folder has outputs of other tasks, by its manifest, and none of this one."""
    tasks = [_task(listed) for listed in _outputs(to).values()]
    return bool(tasks) and not any(_task(file) in tasks for file in files)


def _is_here(file: FetchedFile) -> bool:
    try:
        with file.place.folder() as folder:
            return is_right(file, folder)
    except (FetchFailed, OSError):
        return True  # a link, for example: the download reports the fault


def _outputs(to: Path) -> dict[str, str]:
    """Return the outputs that the manifest of a folder lists, by their paths there."""
    try:
        with (to / NAME).open(encoding="utf-8", errors="replace", newline="") as file:
            rows = csv.DictReader(file)
            return {str(row.get("path")).removeprefix("./"): row.get("output") or "" for row in rows}
    except (OSError, csv.Error):
        return {}


def _task(output: str) -> list[str]:
    """Return the parts of SCOPE:tasks/FEDERATION/TASK/JOB/NAME that name the task. Jobs share them."""
    return output.split("/")[:3]


def _earlier(text: str, rows: list[dict[str, object]], to: Path) -> Iterator[dict[str, object]]:
    """Yield rows of files that an earlier fetch brought, and that are still there."""
    paths = {row["path"] for row in rows}
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # a job may have many inputs
    try:
        for row in csv.DictReader(io.StringIO(text, newline="")):
            path = row.get("path")
            if path and path not in paths and None not in row and (to / path).is_file():
                yield dict(row)
    except csv.Error as error:
        raise FetchFailed(f"{to / NAME} is no CSV ({error}); it stays as it is") from error


def rows_of(jobs: Iterable[Any], fetched: Iterable[tuple[FetchedFile, Any]]) -> Iterator[dict[str, object]]:
    """Yield the lines of files, with the known facts of their jobs."""
    jobs_by_id = {job["id"]: job for job in jobs}
    numbered = [(_job_number(output), file) for file, output in fetched]
    for number, file in sorted(numbered, key=lambda row: (row[0], row[1].place.name)):
        job = jobs_by_id.get(number, {})
        parameters = job.get("parameters") or {}
        yield {
            "job": number or None,
            "index": job.get("index"),
            **{_column(name): value for name, value in parameters.items()},
            # Names may hold blanks: shlex.split takes them apart again.
            "inputs": " ".join(map(_quote, job.get("inputs", ()))),
            "output": file.file,
            "path": _plain(file.place.name),
            "bytes": file.size,
            "checksum": file.checksum,
        }


def _quote(name: str) -> str:
    """Return a name as a shell takes it, in quotes also where a spreadsheet would calculate with it."""
    return f"'{name}'" if name.startswith(FORMULA) and shlex.quote(name) == name else shlex.quote(name)


def _plain(path: str) -> str:
    """Return a path that no spreadsheet takes for a formula."""
    return f"./{path}" if path.startswith(FORMULA) else path


def _job_number(output: Any) -> int:
    number = output.get("job")
    return number if type(number) is int else 0


def _column(parameter: str) -> str:
    return f"parameter_{parameter}" if parameter in (*FIRST, *LAST) else parameter


def _text(rows: Iterable[dict[str, object]]) -> str:
    lines = list(rows)
    columns = dict.fromkeys(name for row in lines for name in row)
    parameters = [name for name in columns if name not in (*FIRST, *LAST)]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*FIRST, *parameters, *LAST], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
