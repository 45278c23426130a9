"""Documents checked as a whole, and files of them, with the line of every fault."""

import json
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import ValidationError

from pilotage.model.documents import from_json, to_document
from pilotage.model.federation import Federation
from pilotage.model.work import TaskSpec
from pilotage.model.world import World

from . import checks, messages, text, worlds
from .faults import MOST_FAULTS, BadDocument, BadFile, Fault, FileFault, Path, field_name
from .task_checks import MAX_PAYLOAD, task_faults

T = TypeVar("T")

MAX_BYTES = 1 << 30
MOST_TASKS = 1000
"""Tasks of one submission."""


def checked(kind: type[T], document: object) -> T:
    """The record that a document of plain values describes, its types taken strictly.

    Raises :class:`BadDocument` with every fault in plain words, up to ``MOST_FAULTS``. References within a
    federation or a world are checked too.
    """
    try:
        # Through JSON: there, strict takes lists for tuples and words for enums, and still no "5" for 5.
        value = from_json(kind, json.dumps(document, allow_nan=False), strict=True)
    except ValidationError as error:
        found = list(islice(messages.faults(kind, error, document), MOST_FAULTS))
        raise BadDocument([*found, *_beside(kind, document, found)][:MOST_FAULTS]) from error
    except (ValueError, RecursionError) as error:
        fault = Fault((), "holds a number that is not finite, or is nested too deeply", "leave it out")
        raise BadDocument([fault]) from error
    if faults := _contradictions(value):
        raise BadDocument(faults)
    return value


def _contradictions(value: object) -> list[Fault]:
    """Faults of references and limits, which no single field shows."""
    if isinstance(value, Federation):
        return checks.federation_faults(value)
    return worlds.check_world(value) if isinstance(value, World) else []


def _beside(kind: type[Any], document: object, found: Sequence[Fault]) -> list[Fault]:
    """Find further faults, as far as they show without the fields that have some: all in one round.

    Nothing where the rest is no record, for want of fields that it must have.
    """
    if kind not in (Federation, World):
        return []
    value = _without(kind, document, found)
    return [] if value is None else _elsewhere(_contradictions(value), found)


def _without(kind: type[T], document: object, faults: Iterable[Fault]) -> T | None:
    """The record without the fields that have faults; none where it must have one of them."""
    try:
        # A deep copy, of which fields are taken away.
        rest = json.loads(json.dumps(document, allow_nan=False))
        for fault in faults:
            _leave_out(rest, fault.path)
        return from_json(kind, json.dumps(rest), strict=True)
    except (ValueError, RecursionError):
        return None


def _elsewhere(faults: Iterable[Fault], known: Sequence[Fault]) -> list[Fault]:
    """Faults at fields that have no known fault, nor lie above or below one that has."""
    paths = [fault.path for fault in known]
    return [
        fault
        for fault in faults
        if not any(fault.path[: len(path)] == path or path[: len(fault.path)] == fault.path for path in paths)
    ]


def _leave_out(document: Any, path: Path) -> None:
    """Remove a field of a record."""
    for part in path[:-1]:
        document = document[part] if _has(document, part) else None
    if path and isinstance(document, dict):
        document.pop(path[-1], None)


def _has(value: Any, part: int | str) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read: once, for it may be a stream, whatever is found wrong with it later."""

    path: str | FilePath
    content: str

    @classmethod
    def of(cls, path: "str | FilePath | SourceFile") -> "SourceFile":
        """The file at a path. Raises :class:`BadFile` where there is none."""
        return path if isinstance(path, SourceFile) else cls(path, read_text(path))

    def refused(self, faults: Iterable[tuple[int | None, str, str]]) -> BadFile:
        """Locate faults that somebody else found, given as (index of the task, field, message)."""
        places = [place for place, _ in _tasks(text.parse(self.content))]
        found = []
        for index, field, message in faults:
            found.append(Fault((*(() if index is None else places[index]), *_parts(field)), message))
        return _located(self.path, self.content, found)


def read(
    kind: type[T], path: str | FilePath | SourceFile, also: Callable[[T], Iterable[Fault]] = lambda _: ()
) -> T:
    """The federation or world in a file of YAML or JSON, sound by what is checked ``also``.

    Raises :class:`BadFile` with every fault, up to ``MOST_FAULTS``.
    """
    source = SourceFile.of(path)
    try:
        document = text.parse(source.content)
        if not isinstance(document, dict):
            raise BadDocument([Fault((), f"{messages.show(document)} is not a mapping", "give name: value")])
        value = checked(kind, document)
        if faults := list(islice(also(value), MOST_FAULTS)):
            raise BadDocument(faults)
        return value
    except BadDocument as bad:
        raise _located(source.path, source.content, bad.faults) from bad


References = Callable[[Sequence[TaskSpec]], Iterable[tuple[int, str, str]]]
"""Finds what contradicts a federation: index of the task, field, message."""


def read_tasks(
    path: str | FilePath | SourceFile, references: References | None = None
) -> tuple[TaskSpec, ...]:
    """The tasks in a file: one or a list, bare or below ``task:`` or ``tasks:``.

    A payload file is given as a path relative to the file, or as its text where that has a line break.
    Raises :class:`BadFile` with every fault of every task. Where there are any, ``references`` is asked
    about the tasks without the fields that have some, so that all is told in one round.
    """
    source = SourceFile.of(path)
    specs: list[TaskSpec] = []
    faults: list[Fault] = []
    rest: list[tuple[Path, TaskSpec]] = []
    try:
        for place, document in _tasks(text.parse(source.content)):
            faults += _with_payload(place, document, FilePath(source.path).parent)
            try:
                spec = checked(TaskSpec, document)
                found = task_faults(spec)
                specs.append(spec)
            except BadDocument as bad:
                found = list(bad.faults)
            if sound := _without(TaskSpec, document, found):
                rest.append((place, sound))
            faults += [Fault((*place, *fault.path), fault.message, fault.remedy) for fault in found]
    except BadDocument as bad:
        faults += bad.faults
    if faults and references:
        found = [
            Fault((*rest[index][0], *_parts(field)), message)
            for index, field, message in references([spec for _, spec in rest])
        ]
        faults += _elsewhere(found, faults)
    if faults:
        raise _located(source.path, source.content, faults)
    return tuple(specs)


def _parts(field: str) -> Path:
    """The path of a field by its name: ``inputs[0].name``."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"[.\[\]]+", field) if part)


def write(value: object) -> str:
    """A record as YAML text, which :func:`read` reads back as an equal one."""
    return text.render(to_document(value))


def _tasks(document: Any) -> Iterator[tuple[Path, Any]]:
    """Each task's document with its place in the file."""
    place: Path = ()
    for key in ("task", "tasks"):
        if isinstance(document, dict) and key in document:
            others = [messages.unknown_field((name,), [key]) for name in document if name != key]
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
    """Puts the text of payload files in the place of their paths."""
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


def _read_plain(path: FilePath) -> str:
    """The text of a payload file: no pipe or device, of which one never knows whether it ends."""
    try:
        plain = stat.S_ISREG(path.stat().st_mode) or path.is_dir()
    except OSError:
        plain = True  # reading it tells what is wrong
    if not plain:
        raise BadFile([FileFault(str(path), None, "", "is not a regular file", "")])
    return read_text(path, MAX_PAYLOAD)


def read_text(path: str | FilePath, most: int = MAX_BYTES) -> str:
    """The text of a file of at most so many bytes. Raises :class:`BadFile` where there is none."""

    def bad(message: str, remedy: str) -> BadFile:
        return BadFile([FileFault(str(path), None, "", message, remedy)])

    try:
        with FilePath(path).open("rb") as file:
            # One byte more tells a file that is too large, also one of which stat knows no size.
            data = file.read(most + 1)
    except FileNotFoundError:
        raise bad("there is no such file", "check the path") from None
    except IsADirectoryError:
        raise bad("is a directory", "give a file") from None
    except OSError as error:
        raise bad(f"cannot be read: {error.strerror}", "check the path and its permissions") from error
    except ValueError as error:  # such as a NUL, which no file's name may hold
        raise bad(f"is not a path: {error}", "give one without that character") from error
    if len(data) > most:
        raise bad(f"is larger than {most} bytes", "give a smaller file")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        fault = FileFault(
            str(path), line, "", f"byte {data[error.start]:#04x} is not UTF-8", "save it as UTF-8"
        )
        raise BadFile([fault]) from error


def _located(path: str | FilePath, content: str, faults: Iterable[Fault]) -> BadFile:
    """The same faults with file and line; a field that is not there has the line of what should hold it."""
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
