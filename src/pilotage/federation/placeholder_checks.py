"""Faults of placeholders in a task's texts: names without a value, and values that a text cannot take."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from pydantic import TypeAdapter, ValidationError

from pilotage.federation.faults import Fault, Path
from pilotage.federation.messages import nearest
from pilotage.federation.shell_checks import shell_faults
from pilotage.model.records.inputs import InputFile
from pilotage.model.records.spec import MOST_JOBS, TaskSpec
from pilotage.model.rules.job_payload import ONE_INPUT
from pilotage.model.values.parameters import expanded_bytes, parameter_names, row_count, values_of
from pilotage.model.values.paths import INPUTS
from pilotage.model.values.patterns import WILDCARDS
from pilotage.model.values.placeholders import OWN, VARIABLE, filled, names, parts, stray
from pilotage.model.values.types import OutputPattern
from pilotage.request_budget import asking

MOST_TEXT = 100_000
"""Most bytes of one word of a command, or of all variables, once the values are in."""

MOST_EXPANDED = 16 << 20
"""Most bytes of the rows of all jobs together. Many rows repeat a grid's values, and many jobs a row."""

MOST_COMMAND = 1 << 18
"""Most bytes of all words of a command, once the values are in: each job's order holds its own."""

MOST_OUTPUTS = 20
"""Most outputs that name parameters."""

MOST_TRIED = 300_000
"""Most values that are tried in names of outputs: a second of work."""

MOST_SUGGESTIONS = 20
"""Most unknown names of a task that are compared with all known ones."""

_OUTPUT: TypeAdapter[str] = TypeAdapter(OutputPattern)
_DOUBLED = "write {{ and }} for braces that stay: in a task with parameters, {NAME} is a parameter"


def placeholder_faults(spec: TaskSpec) -> Iterator[Fault]:
    """Yield names that no job has a value for, and values that their places cannot take."""
    strict = bool(spec.parameters)
    yield from _inputs(spec)
    known_names = (*OWN, *parameter_names(spec.parameters))
    sound, unknown = True, count()
    for path, text in asking(_texts(spec)):
        for fault in (
            _names(path, text, spec, known_names, unknown) if strict else _own_names(path, text, spec)
        ):
            sound = False
            yield fault
    if strict:
        yield from _combinations(spec)
        if sound:
            yield from shell_faults(spec)
            yield from _Values.of(spec).faults()


def _inputs(spec: TaskSpec) -> Iterator[Fault]:
    """Yield faults of inputs for certain rows, and of input files that name a parameter."""
    rows, parameters = row_count(spec.parameters), parameter_names(spec.parameters)
    for at, item in enumerate(asking(spec.inputs)):
        if not isinstance(item, InputFile):
            continue
        if any(f"{{{name}}}" in item.name for name in parameters):
            yield Fault(("inputs", at, "name"), f"{item.name!r} names a parameter", "write it as a glob")
        if item.rows and not rows:
            yield Fault(("inputs", at, "rows"), "are given without parameters", "leave them out")
        elif any(row >= rows for row in item.rows):
            yield Fault(("inputs", at, "rows"), f"name a row above {rows - 1}, the last", "count from 0")


def _texts(spec: TaskSpec) -> Iterator[tuple[Path, str]]:
    for field in ("command", "outputs", "optional_outputs"):
        yield from (((field, at), text) for at, text in enumerate(getattr(spec, field)))
    yield from ((("environment", name), text) for name, text in spec.environment.items())
    if spec.stdin != ONE_INPUT:
        yield ("stdin",), spec.stdin


def _own_names(path: Path, text: str, spec: TaskSpec) -> Iterator[Fault]:
    """Yield faults of a text in a task without parameters, where most braces mean nothing."""
    placeholders = names(text, strict=False)
    if "first_event" in placeholders:
        yield from _first_event(path, spec)
    if path[0] in ("outputs", "optional_outputs"):
        # Names may have any braces: only a clear mistake is refused.
        for name in names(text, strict=True):
            near = nearest(name, OWN, cutoff=0.75)
            if near and name not in OWN:
                yield Fault(path, f"{text!r} names no value of a job", f"did you mean {{{near[0]}}}?")


def _names(
    path: Path, text: str, spec: TaskSpec, known_names: tuple[str, ...], unknown: Iterator[int]
) -> Iterator[Fault]:
    """Yield faults of a text in a task with parameters, where every brace counts."""
    if rest := stray(text):
        yield Fault(path, f"has a brace that names no parameter, at {_cut(rest)!r}", _DOUBLED)
        return
    for name in names(text, strict=True):
        if name == "first_event":
            yield from _first_event(path, spec)
        if name not in known_names:
            compared = known_names if next(unknown) < MOST_SUGGESTIONS else ()
            near = nearest(name, compared)
            begin = f"did you mean {{{near[0]}}}?" if near else f"known are {_listed(known_names[:20])};"
            remedy = f"{begin} for braces that stay write {{{{{name[:60]}}}}}"
            yield Fault(path, f"there is no parameter {{{name[:60]}}}", remedy)


def _first_event(path: Path, spec: TaskSpec) -> Iterator[Fault]:
    if spec.inputs:
        message = "{first_event} is for tasks without inputs: a job here reads the events of its files"
        yield Fault(path, message, "leave it out, or use {index}")


def _listed(placeholders: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in placeholders)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _combinations(spec: TaskSpec) -> Iterator[Fault]:
    """Yield fields that a task with parameters may not have."""
    parameters = parameter_names(spec.parameters)
    if spec.jobs > 1:
        remedy = "leave it out: each row is a job; for several jobs a row add a parameter, replica: [0, 1, 2]"
        yield Fault(("jobs",), "is given beside parameters", remedy)
    if not spec.command:
        yield Fault(("parameters",), "are given to an empty payload", "give a command that uses them")
    rows, groups = row_count(spec.parameters), spec.groups_of_inputs
    if rows * groups > MOST_JOBS:
        message = f"make {rows} rows × {groups} groups of inputs = {rows * groups} jobs, above {MOST_JOBS}"
        yield Fault(("parameters",), message, "give a larger files_per_job, or submit several tasks")
    elif (size := expanded_bytes(spec.parameters) * max(1, groups)) > MOST_EXPANDED:
        message = f"have {size} bytes in the rows of all jobs together, above {MOST_EXPANDED}"
        yield Fault(("parameters",), message, "put long texts into a payload file, and name them by a word")
    for at, word in enumerate(spec.merge.command if spec.merge else ()):
        for name in parameters:
            if f"{{{name}}}" in word:
                message = f"names {{{name}}}, but the merge job reads the outputs of all rows"
                yield Fault(("merge", "command", at), message, "leave it out")


@dataclass(frozen=True, slots=True)
class _Values:
    """A task with sound placeholders, and the values that each parameter has."""

    spec: TaskSpec
    values: Mapping[str, set[str]]

    @classmethod
    def of(cls, spec: TaskSpec) -> "_Values":
        return cls(
            spec, {name: values_of(spec.parameters, name) for name in parameter_names(spec.parameters)}
        )

    def faults(self) -> Iterator[Fault]:
        """Yield values that make a text too long, or an output impossible."""
        longest = {name: max(len(text.encode()) for text in self.values[name]) for name in self.values}
        sizes = {name: longest.get(name, 10) for name in (*OWN, *longest)}
        whole = 0
        for at, word in enumerate(asking(self.spec.command)):
            size = _size(word, sizes)
            if size > MOST_TEXT:
                message = f"has {size} bytes with its longest values, above {MOST_TEXT}"
                yield Fault(("command", at), message, "put long texts into a payload file")
            whole += size
        if whole > MOST_COMMAND:
            message = f"has {whole} bytes with the longest values, above {MOST_COMMAND}"
            yield Fault(("command",), message, "name the values once, or put long texts into a payload file")
        total = sum(len(VARIABLE) + len(name) + size for name, size in longest.items())
        total += sum(len(name) + _size(text, sizes) for name, text in self.spec.environment.items())
        if total > MOST_TEXT:
            message = f"has {total} bytes with all parameters, above {MOST_TEXT}"
            yield Fault(("environment",), message, "give shorter values")
        yield from self._outputs()

    def _outputs(self) -> Iterator[Fault]:
        swept = [
            (at, text)
            for at, text in enumerate(self.spec.outputs)
            if any(name in self.values for name in names(text, strict=True))
        ]
        if len(swept) > MOST_OUTPUTS:
            message = f"{len(swept)} name parameters, above {MOST_OUTPUTS}"
            yield Fault(("outputs",), message, "name a folder or a pattern, such as results-{sample}/")
            return
        used = {name for _, text in swept for name in names(text, strict=True) if name in self.values}
        tried = {name: _tried(self.values[name]) for name in used}
        tests = sum(len(tried.get(name, ())) for _, text in swept for name in names(text, strict=True))
        if tests > MOST_TRIED:
            message = f"have {tests} names that may be none: values with / or other signs"
            yield Fault(("outputs",), message, "name the outputs by {index}")
            return
        usual = dict.fromkeys((*OWN, *self.values), "1")
        for at, text in swept:
            for name in names(text, strict=True):
                values = sorted({*tried.get(name, ()), *self._clashing_values(text, name)})
                yield from self._output(("outputs", at), text, name, usual, values)

    def _clashing_values(self, text: str, name: str) -> Iterator[str]:
        """Yield values that give an output the name of an existing file or folder."""
        pieces = [
            (re.escape(piece) if kind == "text" else "(.+)" if piece == name else "1")
            for kind, piece in parts(text.partition("/")[0], strict=True)
        ]
        pattern = re.compile("".join(pieces))
        for name_there in INPUTS:
            match = pattern.fullmatch(name_there)
            yield from (
                value for value in (match.groups() if match else ()) if value in self.values.get(name, ())
            )

    def _output(
        self, path: Path, text: str, name: str, usual: Mapping[str, str], values: Iterable[str]
    ) -> Iterator[Fault]:
        """Yield the first value of a parameter that makes no name of an output."""
        for value in values:
            output = filled(text, {**usual, name: value}, strict=True)
            if not _is_output(output) or WILDCARDS.search(value) or output.split("/")[0] in INPUTS:
                message = f"{name} {_cut(value)!r} makes {_cut(output)!r}, which is no name of an output"
                yield Fault(path, message, "use {index} here, or other values")
                return


_SIGNS = re.compile(r"[/*?\[\x00-\x1f\x7f-\x9f]")


def _tried(values: Iterable[str]) -> list[str]:
    """Return the values to try in a name of an output: the longest, and values of only signs or dots.

    If the longest makes a valid name, all others do.
    """
    all_values = list(values)
    odd = [value for value in all_values if _SIGNS.search(value) or not value.strip(".")]
    return [*odd, max(all_values, key=len)] if all_values else odd


def _is_output(name: str) -> bool:
    try:
        _OUTPUT.validate_python(name)
    except ValidationError:
        return False
    return True


def _size(template: str, sizes: Mapping[str, int]) -> int:
    """Return the most bytes that a text may have."""
    return sum(
        sizes.get(text, 0) if kind == "name" else len(text.encode()) for kind, text in parts(template, True)
    )
