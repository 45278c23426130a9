"""Check whole documents and files, and give every fault its line."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import ValidationError

from pilotage import request_budget
from pilotage.federation import messages, text
from pilotage.federation.faults import BadDocument, Fault, Path, explained, show
from pilotage.federation.remainder import Remainder, remainder
from pilotage.federation.source_files import (
    WORKFLOW,
    SourceFile,
    located,
    names_workflow,
    parts_of,
    tasks_in,
    with_parameters,
    with_payload,
)
from pilotage.federation.task_checks import task_faults
from pilotage.model.documents.serialization import from_json, to_document
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.types import Name

if TYPE_CHECKING:
    from pilotage.model.documents.world import World
    from pilotage.model.records.federation import Federation

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """The name of a workflow, which is checked like any field."""

    workflow: Name


_WITH_REFERENCES = ("Federation", "World")
"""Documents whose parts refer to each other. By name: to load their models takes most of the time of a
submission."""

MOST_TASKS = 1000
"""Most tasks of one submission."""

MOST_COUNTED = 50_000
"""If there are more faults, explain none and report only their number."""


def checked(
    kind: type[T], document: object, further_faults: Callable[[T], Iterable[Fault]] = lambda _: ()
) -> T:
    """Return the record that a document of plain values describes. Types are strict.

    Raises ``BadDocument`` with every fault in plain words that the request's budget can explain. The same
    round checks references within a federation or a world, and ``further_faults``.
    """
    try:
        value = _read_in_parts(kind, document)
    except _FaultyPart as faulty:
        faults = explained(faulty.faults(kind))
        if kind.__name__ in _WITH_REFERENCES and (rest := remainder(kind, document, faults)):
            faults += rest.further(chain(_contradictions(rest.value), further_faults(rest.value)), faults)
        raise BadDocument(faults[: request_budget.MOST_FAULTS]) from faulty.error
    except (ValueError, RecursionError) as error:
        fault = Fault((), "holds a number that is not finite, or is nested too deeply", "leave it out")
        raise BadDocument([fault]) from error
    if faults := explained(chain(_contradictions(value), further_faults(value))):
        raise BadDocument(faults)
    return value


PART = 1000
"""Inputs of a task to read in one part. No other thread of the process runs while a part is read."""


class _FaultyPart(Exception):
    """A document has faults, or a part of it. The part's first input has the number ``start``."""

    def __init__(self, error: ValidationError, part: object, start: int) -> None:
        self.error = error
        self.part = part
        self.start = start

    def faults(self, kind: type[Any]) -> Iterator[Fault]:
        """Yield the faults at their places in the document."""
        count = self.error.error_count()
        if count > MOST_COUNTED or not request_budget.faults_left():
            yield Fault((), f"has {count} faults", "send it alone, or a part of it, to see them")
            return
        for fault in messages.faults(kind, self.error, self.part):
            match fault.path:
                case ("inputs", int(at), *rest):
                    yield replace(fault, path=("inputs", at + self.start, *rest))
                case _:
                    yield fault


def _read_in_parts(kind: type[T], document: object) -> T:
    """Return the record of a document. Raises ``_FaultyPart`` at the first part that has faults.

    So a long list of bad inputs, with a dozen faults each, does not collect all of them.
    """
    values = []
    for start, part in _parts(kind, document):
        request_budget.check()
        try:
            # Convert through JSON: there, strict mode accepts lists for tuples and words for enums, but still
            # no "5" for 5.
            values.append(from_json(kind, json.dumps(part, allow_nan=False), strict=True))
        except ValidationError as error:
            raise _FaultyPart(error, part, start) from error
    if len(values) == 1:
        return values[0]
    inputs = chain.from_iterable(cast(TaskSpec, value).inputs for value in values)
    return cast(T, replace(cast(TaskSpec, values[0]), inputs=tuple(inputs)))


def _parts(kind: type[Any], document: Any) -> Iterator[tuple[int, Any]]:
    """Yield parts of a document, each with the number of its first input."""
    inputs = document.get("inputs") if kind is TaskSpec and isinstance(document, dict) else None
    if not isinstance(inputs, list) or len(inputs) <= PART:
        yield 0, document
        return
    yield 0, {**document, "inputs": inputs[:PART]}
    for start in range(PART, len(inputs), PART):
        yield start, {"name": document["name"], "inputs": inputs[start : start + PART]}


def _contradictions(value: object) -> list[Fault]:
    """Return faults of references and limits: they involve several fields."""
    kind = type(value).__name__
    if kind not in _WITH_REFERENCES:
        return []
    if kind == "Federation":
        from pilotage.federation.checks import federation_faults

        return federation_faults(cast("Federation", value))
    from pilotage.federation.worlds import check_world

    return check_world(cast("World", value))


def read(
    kind: type[T],
    path: str | FilePath | SourceFile,
    further_faults: Callable[[T], Iterable[Fault]] = lambda _: (),
) -> T:
    """Return the federation or world in a file of YAML or JSON, checked, and passed by ``also``.

    Raises ``BadFile`` with every fault, up to ``MOST_FAULTS``.
    """
    source = SourceFile.of(path)
    try:
        document = text.parse(source.content)
        if not isinstance(document, dict):
            raise BadDocument([Fault((), f"{show(document)} is not a mapping", "give name: value")])
        return checked(kind, document, further_faults)
    except BadDocument as bad:
        raise located(source.path, source.content, bad.faults) from bad


References = Callable[[Sequence[TaskSpec]], Iterable[tuple[int, str, str]]]
"""Finds contradictions to a federation: index of the task, field, message."""


def read_tasks(
    path: str | FilePath | SourceFile, references: References | None = None
) -> tuple[TaskSpec, ...]:
    """Return the tasks in a file: one or a list, bare or under ``task:`` or ``tasks:``.

    A payload file is a path relative to the file, or text with a line break. Raises ``BadFile`` with every
    fault of every task. If there are faults, ``references`` checks the tasks without the faulty fields, so
    that users see all faults together.
    """
    source = SourceFile.of(path)
    specs: list[TaskSpec] = []
    faults: list[Fault] = []
    rest: list[tuple[Path, Remainder[TaskSpec]]] = []
    try:
        for place, document in tasks_in(text.parse(source.content)):
            faults += with_payload(place, document, FilePath(source.path).parent)
            if unread := [*with_parameters(place, document, FilePath(source.path).parent)]:
                faults += unread
                continue
            try:
                spec = checked(TaskSpec, document)
                document_faults = task_faults(spec)
                specs.append(spec)
            except BadDocument as bad:
                document_faults = list(bad.faults)
            # Without its parameters, a task's texts would seem to have faults.
            swept = any(fault.path[:1] == ("parameters",) for fault in document_faults)
            if not swept and (sound := remainder(TaskSpec, document, document_faults)):
                rest.append((place, sound))
            faults += [Fault((*place, *fault.path), fault.message, fault.remedy) for fault in document_faults]
    except BadDocument as bad:
        faults += bad.faults
    if faults and references:
        faults += _further(references, rest, list(faults))
    if faults:
        raise located(source.path, source.content, faults)
    return tuple(specs)


def read_workflow_name(path: str | FilePath | SourceFile) -> str:
    """Return the name that a file gives to its tasks as a workflow; empty if it gives none.

    Raises ``BadFile`` if that is not a valid name.
    """
    source = SourceFile.of(path)
    try:
        document = text.parse(source.content)
        if not names_workflow(document):
            return ""
        return checked(_Named, {WORKFLOW: document[WORKFLOW]}).workflow
    except BadDocument as bad:
        raise located(source.path, source.content, bad.faults) from bad


def _further(
    references: References, rest: Sequence[tuple[Path, Remainder[TaskSpec]]], faults: Sequence[Fault]
) -> Iterator[Fault]:
    """Check tasks without their faulty fields. Yield the faults of other fields."""
    for index, field, message in references([sound.value for _, sound in rest]):
        place, sound = rest[index]
        mine = [
            replace(fault, path=fault.path[len(place) :])
            for fault in faults
            if fault.path[: len(place)] == place
        ]
        for fault in sound.further([Fault(parts_of(field), message)], mine):
            yield replace(fault, path=(*place, *fault.path))


def write(value: object) -> str:
    """Return a record as YAML text, which ``read`` turns back into an equal one."""
    return text.render(to_document(value))
