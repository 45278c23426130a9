"""Inputs that name parameters: each row of a task reads the files that its own values name."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pilotage.model.records.work import InputFile, InputPattern, TaskSpec
from pilotage.model.values.parameters import parameter_names, row_at, row_count, values_of
from pilotage.model.values.patterns import WILDCARDS, literal_beginning, matcher
from pilotage.model.values.placeholders import filled, names, stray
from pilotage.ports.catalogue import FoundFile
from pilotage.ports.moving import StorageError
from pilotage.request_budget import asking

ALL_FILES = 2**31 - 1
"""``files_per_job`` of a task with one job for each row, which reads all inputs of the row."""

MOST_TESTS = 5_000_000
"""Most tests of a name against a row's pattern: some seconds."""

MOST_NAMED = 3
"""Rows without an input that an error names."""

INDEX = "index"
_LETTER = re.compile(r"([*?\[])")

Find = Callable[[InputPattern], Sequence[FoundFile]]
"""Returns the files of a pattern; none if nothing matches it."""


def is_template(spec: TaskSpec, item: object) -> bool:
    """Return whether an input is a pattern with parameters in braces."""
    return isinstance(item, InputPattern) and bool(spec.parameters) and "{" in item.glob


def by_row(spec: TaskSpec) -> TaskSpec:
    """Return a task with one job a row, if its inputs say which rows read them."""
    if any(isinstance(item, InputFile) and item.rows for item in spec.inputs):
        return replace(spec, files_per_job=ALL_FILES)
    return spec


def template_fault(spec: TaskSpec, item: InputPattern) -> str:
    """Return the fault of the names in a pattern; empty if there is none."""
    known_names = (*parameter_names(spec.parameters), INDEX)
    doubled = "write {{ and }} for braces that stay"
    if brace := stray(item.glob):
        return f"has a brace that names no parameter, at {brace[:60]!r}; {doubled}"
    for name in names(item.glob, strict=True):
        if name not in known_names:
            listed = ", ".join(f"{{{parameter}}}" for parameter in known_names[:20])
            return f"there is no parameter {{{name[:60]}}}; known are {listed}; {doubled}"
    if names(item.glob, strict=True) and spec.files_per_job not in (1, ALL_FILES):
        return "names parameters, so that each row is one job with all its inputs; leave files_per_job out"
    return ""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row's pattern, and the name of its only file; None if the pattern has wildcards."""

    number: int
    pattern: str
    name: str | None


def patterns(spec: TaskSpec, item: InputPattern) -> Iterator[InputPattern]:
    """Yield the pattern of each row, in order."""
    yield from (replace(item, glob=row.pattern) for row in _rows(spec, item))


def files_of_rows(
    spec: TaskSpec, item: InputPattern, find: Find, is_listed: Callable[[InputPattern], bool]
) -> list[FoundFile]:
    """Return the files of all rows, each with the rows that read it.

    One look-up finds the files of all rows if ``is_listed`` allows its pattern; otherwise look up each row.
    Raises LookupError, which names the rows without a file, and the errors of ``find``.
    """
    rows = list(_rows(spec, item))
    if not names(item.glob, strict=True):
        return list(find(replace(item, glob=rows[0].pattern)))
    wide = _wide(spec, item)
    files: Sequence[FoundFile] | None = None
    if wide and is_listed(wide):
        try:
            files = find(wide)
        except StorageError:
            # Perhaps too many for one look-up: each row may name few.
            files = None
    readers: dict[str, list[int]] = defaultdict(list)
    by_name: dict[str, FoundFile] = {}
    lacking: list[_Row] = []
    pick = _Picking(files).of if files is not None else lambda row: find(replace(item, glob=row.pattern))
    for row in rows:
        row_files = pick(row)
        for found_file in row_files:
            by_name.setdefault(found_file.file.name, found_file)
            readers[found_file.file.name].append(row.number)
        if not row_files:
            lacking.append(row)
    if lacking:
        raise LookupError(_lacking(spec, item, lacking))
    return [
        replace(by_name[name], file=replace(by_name[name].file, rows=tuple(numbers)))
        for name, numbers in readers.items()
    ]


def _rows(spec: TaskSpec, item: InputPattern) -> Iterator[_Row]:
    has_wildcards = bool(WILDCARDS.search(item.glob))
    for number in asking(range(row_count(spec.parameters))):
        values = {**row_at(spec.parameters, number), INDEX: str(number)}
        literal = {name: _LETTER.sub(r"[\1]", value) for name, value in values.items()}
        name = None if has_wildcards else filled(item.glob, values, strict=True)
        yield _Row(number, filled(item.glob, literal, strict=True), name)


def _wide(spec: TaskSpec, item: InputPattern) -> InputPattern | None:
    """Return a pattern that matches the files of all rows; None if there is none of the same depth."""
    stars = {}
    for name in names(item.glob, strict=True):
        values = {"0"} if name == INDEX else values_of(spec.parameters, name)
        if any("/" in value for value in values):
            return None
        (only, *rest) = values
        stars[name] = "*" if rest or name == INDEX else _LETTER.sub(r"[\1]", only)
    glob = filled(item.glob, stars, strict=True)
    # Two stars side by side would match folders.
    return None if glob.count("**") > item.glob.count("**") else replace(item, glob=glob)


class _Picking:
    """Picks the files of each row from the files that one look found."""

    def __init__(self, files: Sequence[FoundFile]) -> None:
        self._files: dict[str, list[FoundFile]] = defaultdict(list)
        for found_file in files:
            self._files[found_file.file.name].append(found_file)
        self._names = sorted(self._files)
        self._tests = 0

    def of(self, row: _Row) -> list[FoundFile]:
        """Return the files of a row. Raises LookupError for too many tests."""
        if row.name is not None:
            return self._files.get(row.name, [])
        files: list[FoundFile] = []
        accepts, begin = matcher(row.pattern), literal_beginning(row.pattern)
        for name in asking(self._names[bisect_left(self._names, begin) :]):
            if not name.startswith(begin):
                break
            self._tests += 1
            if self._tests > MOST_TESTS:
                raise LookupError(
                    "has too many files and rows to compare; begin the pattern with a parameter"
                )
            if accepts(name):
                files += self._files[name]
        return files


def _lacking(spec: TaskSpec, item: InputPattern, rows: Sequence[_Row]) -> str:
    place = f"on {', '.join(item.storages)}" if item.storages else f"in the scope {item.scope}"
    reasons = "; ".join(
        f"row {row.number} ({_words(row_at(spec.parameters, row.number))}): no file matches "
        f"{(row.name or row.pattern)!r}"
        for row in rows[:MOST_NAMED]
    )
    more = f"; and {len(rows) - MOST_NAMED} more rows" if len(rows) > MOST_NAMED else ""
    return f"{reasons}{more}; looked {place}"


def _words(row: dict[str, str]) -> str:
    text = ", ".join(f"{name}={value}" for name, value in row.items())
    return text if len(text) <= 100 else f"{text[:97]}..."
