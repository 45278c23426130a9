"""Check whole documents and files, and give every fault its line."""

import json
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import Any, BinaryIO, TypeVar

from pydantic import ValidationError

from pilotage.model.documents.serialization import from_json, to_document
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.parameters import MOST_ROWS
from pilotage.model.values.types import Name

from . import checks, messages, text, worlds
from .faults import MOST_FAULTS, BadDocument, BadFile, Fault, FileFault, Path, field_name
from .parameter_files import MOST_FILE, rows_of
from .remainder import Remainder, remainder
from .task_checks import MAX_PAYLOAD, task_faults

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """The name of a workflow, which is checked like any field."""

    workflow: Name


_IS_TASK = {"name", "command"}
"""Fields of a task that stands alone in its file: its ``workflow`` means something else."""

MAX_BYTES = 1 << 30
MOST_TASKS = 1000
"""Most tasks of one submission."""
WORKFLOW = "workflow"
"""Beside ``tasks:``, the name of the workflow that they are."""


def checked(kind: type[T], document: object, also: Callable[[T], Iterable[Fault]] = lambda _: ()) -> T:
    """Return the record that a document of plain values describes. Types are strict.

    Raises :class:`BadDocument` with every fault in plain words, up to ``MOST_FAULTS``. One round also checks
    references within a federation or a world, and everything that ``also`` finds.
    """
    try:
        # Convert through JSON: there, strict mode accepts lists for tuples and words for enums, but still no
        # "5" for 5.
        value = from_json(kind, json.dumps(document, allow_nan=False), strict=True)
    except ValidationError as error:
        found = list(islice(messages.faults(kind, error, document), MOST_FAULTS))
        if kind in (Federation, World) and (rest := remainder(kind, document, found)):
            found += rest.further(chain(_contradictions(rest.value), also(rest.value)), found)
        raise BadDocument(found[:MOST_FAULTS]) from error
    except (ValueError, RecursionError) as error:
        fault = Fault((), "holds a number that is not finite, or is nested too deeply", "leave it out")
        raise BadDocument([fault]) from error
    if faults := list(islice(chain(_contradictions(value), also(value)), MOST_FAULTS)):
        raise BadDocument(faults)
    return value


def _contradictions(value: object) -> list[Fault]:
    """Return faults of references and limits, which no single field shows."""
    if isinstance(value, Federation):
        return checks.federation_faults(value)
    return worlds.check_world(value) if isinstance(value, World) else []


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The content of a file. It is read once, because it may be a stream and later faults need its lines."""

    path: str | FilePath
    content: str

    @classmethod
    def of(cls, path: "str | FilePath | SourceFile") -> "SourceFile":
        """Read the file at a path. Raises :class:`BadFile` if there is none."""
        return path if isinstance(path, SourceFile) else cls(path, read_text(path))

    @classmethod
    def of_stream(cls, name: str, stream: BinaryIO) -> "SourceFile":
        """Read a stream to its end. Raises :class:`BadFile` if it is no text, or too large."""
        return cls(name, _decoded(name, _bounded(name, stream, MAX_BYTES)))

    def refused(self, faults: Iterable[tuple[int | None, str, str]]) -> BadFile:
        """Return the error for faults that somebody else found, given as (index of the task, field,
        message)."""
        places = [place for place, _ in _tasks(text.parse(self.content))]
        found = []
        for index, field, message in faults:
            found.append(Fault((*(() if index is None else places[index]), *_parts(field)), message))
        return _located(self.path, self.content, found)


def read(
    kind: type[T], path: str | FilePath | SourceFile, also: Callable[[T], Iterable[Fault]] = lambda _: ()
) -> T:
    """Return the federation or world in a file of YAML or JSON, checked, and passed by ``also``.

    Raises :class:`BadFile` with every fault, up to ``MOST_FAULTS``.
    """
    source = SourceFile.of(path)
    try:
        document = text.parse(source.content)
        if not isinstance(document, dict):
            raise BadDocument([Fault((), f"{messages.show(document)} is not a mapping", "give name: value")])
        return checked(kind, document, also)
    except BadDocument as bad:
        raise _located(source.path, source.content, bad.faults) from bad


References = Callable[[Sequence[TaskSpec]], Iterable[tuple[int, str, str]]]
"""Finds contradictions to a federation: index of the task, field, message."""


def read_tasks(
    path: str | FilePath | SourceFile, references: References | None = None
) -> tuple[TaskSpec, ...]:
    """Return the tasks in a file: one or a list, bare or under ``task:`` or ``tasks:``.

    A payload file is given as a path relative to the file, or as its text if that has a line break. Raises
    :class:`BadFile` with every fault of every task. If there are faults, ``references`` checks the tasks
    without the faulty fields, so that users see all faults at once.
    """
    source = SourceFile.of(path)
    specs: list[TaskSpec] = []
    faults: list[Fault] = []
    rest: list[tuple[Path, Remainder[TaskSpec]]] = []
    try:
        for place, document in _tasks(text.parse(source.content)):
            faults += _with_payload(place, document, FilePath(source.path).parent)
            if unread := [*_with_parameters(place, document, FilePath(source.path).parent)]:
                faults += unread
                continue
            try:
                spec = checked(TaskSpec, document)
                found = task_faults(spec)
                specs.append(spec)
            except BadDocument as bad:
                found = list(bad.faults)
            # Without its parameters, a task's texts would seem to have faults.
            swept = any(fault.path[:1] == ("parameters",) for fault in found)
            if not swept and (sound := remainder(TaskSpec, document, found)):
                rest.append((place, sound))
            faults += [Fault((*place, *fault.path), fault.message, fault.remedy) for fault in found]
    except BadDocument as bad:
        faults += bad.faults
    if faults and references:
        faults += _further(references, rest, list(faults))
    if faults:
        raise _located(source.path, source.content, faults)
    return tuple(specs)


def read_workflow_name(path: str | FilePath | SourceFile) -> str:
    """Return the name that a file gives to its tasks as a workflow; empty if it gives none.

    Raises :class:`BadFile` for what is no name.
    """
    source = SourceFile.of(path)
    try:
        document = text.parse(source.content)
        is_workflow = isinstance(document, dict) and WORKFLOW in document and not _IS_TASK & document.keys()
        if not is_workflow:
            return ""
        return checked(_Named, {WORKFLOW: document[WORKFLOW]}).workflow
    except BadDocument as bad:
        raise _located(source.path, source.content, bad.faults) from bad


def _further(
    references: References, rest: Sequence[tuple[Path, Remainder[TaskSpec]]], known: Sequence[Fault]
) -> Iterator[Fault]:
    """Check tasks without their faulty fields. Yield the faults of other fields."""
    for index, field, message in references([sound.value for _, sound in rest]):
        place, sound = rest[index]
        mine = [
            replace(fault, path=fault.path[len(place) :])
            for fault in known
            if fault.path[: len(place)] == place
        ]
        for fault in sound.further([Fault(_parts(field), message)], mine):
            yield replace(fault, path=(*place, *fault.path))


def _parts(field: str) -> Path:
    """Return the path of a field by its name: ``inputs[0].name``."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"[.\[\]]+", field) if part)


def write(value: object) -> str:
    """Return a record as YAML text, which :func:`read` turns back into an equal one."""
    return text.render(to_document(value))


def _tasks(document: Any) -> Iterator[tuple[Path, Any]]:
    """Yield each task's document with its place in the file."""
    place: Path = ()
    for key in ("task", "tasks"):
        if isinstance(document, dict) and key in document:
            others = [
                messages.unknown_field((name,), [key, WORKFLOW])
                for name in document
                if name not in (key, WORKFLOW)
            ]
            if others:
                raise BadDocument(others)
            place, document = (key,), document[key]
            break
    if isinstance(document, list):
        if not document:
            raise BadDocument([Fault(place, "is empty", "give at least one task")])
        yield from (((*place, index), item) for index, item in enumerate(document))
    else:
        yield place, document


def _with_payload(place: Path, document: Any, folder: FilePath) -> Iterator[Fault]:
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
                yield Fault((*place, "payload_files", name), f"{messages.show(value)} is not a path", "")


def _with_parameters(place: Path, document: Any, folder: FilePath) -> Iterator[Fault]:
    """Replace the path of a file of parameters by its rows."""
    given = document.get("parameters") if isinstance(document, dict) else None
    if not isinstance(given, str):
        return
    try:
        document["parameters"] = rows_of(FilePath(given), _read_plain(folder / given, MOST_FILE))
    except BadFile as bad:
        fault = bad.faults[0]
        line = f" line {fault.line}:" if fault.line else ""
        whole = "" if fault.line else f": a CSV file of at most {MOST_ROWS} rows, relative to this file"
        yield Fault((*place, "parameters"), f"{fault.file}:{line} {fault.message}", f"{fault.remedy}{whole}")
    except ValueError:
        yield Fault((*place, "parameters"), f"{messages.show(given)} is not a path", "")


def _read_plain(path: FilePath, most: int = MAX_PAYLOAD) -> str:
    """Return the text of a small file. Refuse pipes and devices, which may never end."""
    try:
        plain = stat.S_ISREG(path.stat().st_mode) or path.is_dir()
    except OSError:
        plain = True  # reading it tells what is wrong
    if not plain:
        raise BadFile([FileFault(str(path), None, "", "is not a regular file", "")])
    return read_text(path, most)


def read_text(path: str | FilePath, most: int = MAX_BYTES) -> str:
    """Return the text of a file with at most ``most`` bytes. Raises :class:`BadFile` if there is none."""
    return _decoded(path, read_bytes(path, most))


def _decoded(path: str | FilePath, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        fault = FileFault(
            str(path), line, "", f"byte {data[error.start]:#04x} is not UTF-8", "save it as UTF-8"
        )
        raise BadFile([fault]) from error


def read_bytes(path: str | FilePath, most: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file, at most ``most`` of them. Raises :class:`BadFile` if there is none."""

    try:
        with FilePath(path).open("rb") as file:
            return _bounded(path, file, most)
    except FileNotFoundError:
        raise _bad(path, "there is no such file", "check the path") from None
    except IsADirectoryError:
        raise _bad(path, "is a directory", "give a file") from None
    except OSError as error:
        raise _bad(path, f"cannot be read: {error.strerror}", "check the path and its permissions") from error
    except ValueError as error:  # such as a NUL, which no file's name may hold
        raise _bad(path, f"is not a path: {error}", "give one without that character") from error


def _bounded(path: str | FilePath, stream: BinaryIO, most: int) -> bytes:
    # One more byte reveals a file that is too large, even if stat knows no size.
    data = stream.read(most + 1)
    if len(data) > most:
        raise _bad(path, f"is larger than {most} bytes", "give a smaller file")
    return data


def _bad(path: str | FilePath, message: str, remedy: str) -> BadFile:
    return BadFile([FileFault(str(path), None, "", message, remedy)])


def _located(path: str | FilePath, content: str, faults: Iterable[Fault]) -> BadFile:
    """Return the same faults with file and line. A missing field has the line of its parent."""
    faults = list(faults)
    known: dict[Path, int] = {}
    if any(fault.line is None for fault in faults):
        try:
            known = text.lines(content)
        except BadDocument as bad:  # JSON that YAML does not take, such as one nested too deeply
            faults = list(bad.faults)
    found = [
        FileFault(
            str(path),
            fault.line or _line(known, fault.path),
            field_name(fault.path),
            fault.message,
            fault.remedy,
        )
        for fault in faults
    ]
    return BadFile(sorted(found, key=lambda fault: (fault.line or 0, fault.field)))


def _line(lines: dict[Path, int], path: Path) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)
