"""Read files of tasks without checking them. The client uses only this module."""

import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, BinaryIO

from pilotage.federation import text
from pilotage.federation.faults import BadDocument, BadFile, Fault, FileFault, Path, field_name, show
from pilotage.federation.parameter_files import MOST_FILE, rows_of
from pilotage.model.values.parameter_bounds import MOST_ROWS

MAX_PAYLOAD = 1 << 20
"""Most bytes of a task's payload files together, or of a command's words."""

_IS_TASK = {"name", "command"}
"""Fields that show that a file is a single task: there ``workflow`` has another meaning."""

MAX_BYTES = 1 << 30
WORKFLOW = "workflow"
"""Beside ``tasks:``, the name of the workflow that they are."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The content of a file. It is read once, because it may be a stream and later faults need its lines."""

    path: str | FilePath
    content: str

    @classmethod
    def of(cls, path: "str | FilePath | SourceFile") -> "SourceFile":
        """Read the file at a path. Raises ``BadFile`` if there is none."""
        return path if isinstance(path, SourceFile) else cls(path, read_text(path))

    @classmethod
    def of_stream(cls, name: str, stream: BinaryIO) -> "SourceFile":
        """Read a stream to its end. Raises ``BadFile`` if it is no text, or too large."""
        return cls(name, _decoded(name, _bounded(name, stream, MAX_BYTES)))

    def refused(self, faults: Iterable[tuple[int | None, str, str]]) -> BadFile:
        """Return the error for a server's faults: tuples of the task's index, the field and the message."""
        places = [place for place, _ in tasks_in(text.parse(self.content))]
        located_faults = []
        for index, field, message in faults:
            located_faults.append(
                Fault((*(() if index is None else places[index]), *parts_of(field)), message)
            )
        return located(self.path, self.content, located_faults)


def parts_of(field: str) -> Path:
    """Return the path of a field by its name: ``inputs[0].name``."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"[.\[\]]+", field) if part)


def tasks_in(document: Any) -> Iterator[tuple[Path, Any]]:
    """Yield each task's document with its place in the file."""
    place: Path = ()
    for key in ("task", "tasks"):
        if isinstance(document, dict) and key in document:
            if strays := [name for name in document if name not in (key, WORKFLOW)]:
                # Import it here: suggestions need packages that the base installation lacks.
                from pilotage.federation.messages import unknown_field

                raise BadDocument([unknown_field((name,), [key, WORKFLOW]) for name in strays])
            place, document = (key,), document[key]
            break
    if isinstance(document, list):
        if not document:
            raise BadDocument([Fault(place, "is empty", "give at least one task")])
        yield from (((*place, index), item) for index, item in enumerate(document))
    else:
        yield place, document


def with_payload(place: Path, document: Any, folder: FilePath) -> Iterator[Fault]:
    """Replace the paths of payload files by their text."""
    files = document.get("payload_files") if isinstance(document, dict) else None
    if not isinstance(files, dict):
        return
    for name, value in files.items():
        if isinstance(value, str) and "\n" not in value:
            try:
                files[name] = _read_plain(folder / value)
            except BadFile as bad:
                fault = bad.faults[0]
                remedy = "give a path relative to this file, or the text itself as a block after a |"
                yield Fault((*place, "payload_files", name), f"{fault.file}: {fault.message}", remedy)
            except ValueError:
                yield Fault((*place, "payload_files", name), f"{show(value)} is not a path", "")


def with_parameters(place: Path, document: Any, folder: FilePath) -> Iterator[Fault]:
    """Replace the path of a file of parameters by its rows."""
    parameters_path = document.get("parameters") if isinstance(document, dict) else None
    if not isinstance(parameters_path, str):
        return
    try:
        document["parameters"] = rows_of(
            FilePath(parameters_path), _read_plain(folder / parameters_path, MOST_FILE)
        )
    except BadFile as bad:
        fault = bad.faults[0]
        line = f" line {fault.line}:" if fault.line else ""
        whole = "" if fault.line else f": a CSV file of at most {MOST_ROWS} rows, relative to this file"
        yield Fault((*place, "parameters"), f"{fault.file}:{line} {fault.message}", f"{fault.remedy}{whole}")
    except ValueError:
        yield Fault((*place, "parameters"), f"{show(parameters_path)} is not a path", "")


def _read_plain(path: FilePath, limit: int = MAX_PAYLOAD) -> str:
    """Return the text of a small file. Refuse pipes and devices, which may never end."""
    try:
        plain = stat.S_ISREG(path.stat().st_mode) or path.is_dir()
    except OSError:
        plain = True  # reading it raises the error
    if not plain:
        raise BadFile([FileFault(str(path), None, "", "is not a regular file", "")])
    return read_text(path, limit)


def read_text(path: str | FilePath, limit: int = MAX_BYTES) -> str:
    """Return the text of a file with at most ``limit`` bytes. Raises ``BadFile`` if there is none."""
    return _decoded(path, read_bytes(path, limit))


def _decoded(path: str | FilePath, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        fault = FileFault(
            str(path), line, "", f"byte {data[error.start]:#04x} is not UTF-8", "save it as UTF-8"
        )
        raise BadFile([fault]) from error


def read_bytes(path: str | FilePath, limit: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file, at most ``limit`` of them. Raises ``BadFile`` if there is none."""

    try:
        with FilePath(path).open("rb") as file:
            return _bounded(path, file, limit)
    except FileNotFoundError:
        raise _bad(path, "there is no such file", "check the path") from None
    except IsADirectoryError:
        raise _bad(path, "is a directory", "give a file") from None
    except OSError as error:
        raise _bad(path, f"cannot be read: {error.strerror}", "check the path and its permissions") from error
    except ValueError as error:  # such as a NUL, which no file's name may hold
        raise _bad(path, f"is not a path: {error}", "give one without that character") from error


def _bounded(path: str | FilePath, stream: BinaryIO, limit: int) -> bytes:
    # One more byte reveals a file that is too large, even if stat knows no size.
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise _bad(path, f"is larger than {limit} bytes", "give a smaller file")
    return data


def _bad(path: str | FilePath, message: str, remedy: str) -> BadFile:
    return BadFile([FileFault(str(path), None, "", message, remedy)])


def located(path: str | FilePath, content: str, faults: Iterable[Fault]) -> BadFile:
    """Return the same faults with file and line. A missing field has the line of its parent."""
    faults = list(faults)
    line_numbers: dict[Path, int] = {}
    if any(fault.line is None for fault in faults):
        try:
            line_numbers = text.lines(content)
        except text.TooLarge:
            return BadFile([_of_file(path, fault, fault.line) for fault in faults])
        except BadDocument as bad:  # JSON that YAML does not take, such as one nested too deeply
            faults = list(bad.faults)
    file_faults = [_of_file(path, fault, fault.line or _line(line_numbers, fault.path)) for fault in faults]
    return BadFile(sorted(file_faults, key=lambda fault: (fault.line or 0, fault.field)))


def _of_file(path: str | FilePath, fault: Fault, line: int | None) -> FileFault:
    return FileFault(str(path), line, field_name(fault.path), fault.message, fault.remedy)


def _line(lines: dict[Path, int], path: Path) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def read_unchecked(source: SourceFile) -> tuple[list[Any], Any]:
    """Return the documents of the tasks in a file, and the name of their workflow, for a server to check.

    Raises ``BadFile`` if that cannot be read.
    """
    faults: list[Fault] = []
    documents = []
    try:
        document = text.parse(source.content)
        for place, task in tasks_in(document):
            folder = FilePath(source.path).parent
            faults += [*with_payload(place, task, folder), *with_parameters(place, task, folder)]
            documents.append(task)
    except BadDocument as bad:
        faults += bad.faults
    if faults:
        raise located(source.path, source.content, faults)
    return documents, document[WORKFLOW] if names_workflow(document) else ""


def names_workflow(document: Any) -> bool:
    """Return whether a document has a name for its tasks as a workflow."""
    return isinstance(document, dict) and WORKFLOW in document and not _IS_TASK & document.keys()
