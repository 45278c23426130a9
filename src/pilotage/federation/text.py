"""YAML and JSON text to plain values and back, for files written by strangers.

Scalars follow YAML 1.2: ``yes`` and ``no`` are words, ``1e9`` is a number, ``12:30`` is text. The parser
refuses aliases, tags, duplicate keys, a second document, numbers beyond 64 bits or not finite, and deep
nesting. It works event by event, so its cost depends on the length of the text, not on depth. It limits the
number of YAML values, because each takes some 10 us; JSON is fifty times as fast.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from pilotage.federation.faults import BadDocument, Fault, Path
from pilotage.model.values.strict_json import read_json

MAX_DEPTH = 50

MOST_YAML = 16 << 20
"""Most characters of a YAML document."""

MOST_VALUES = 300_000
"""Most values of a YAML document: mappings, lists, and their content."""

MOST_TAG_DIRECTIVES = 100
"""Most lines of a YAML document that begin with %TAG. Each is compared with all before it."""

_TAG_DIRECTIVE = re.compile(r"(?:^|(?<=[\n\r\x85\u2028\u2029\ufeff]))%TAG")
_INTEGER = re.compile(r"[-+]?[0-9]+$")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_NOT_FINITE = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$")
_WORDS = dict.fromkeys(("", "~", "null", "Null", "NULL")) | {
    form: word == "true" for word in ("true", "false") for form in (word, word.title(), word.upper())
}
_STRING_TAGS = (None, "!", "tag:yaml.org,2002:str")


class TooLarge(BadDocument):
    """A YAML document has more text or values than this module reads."""

    def __init__(self, message: str, line: int = 1) -> None:
        remedy = "give parameters as rows of a CSV file (parameters: rows.csv), or the document as JSON"
        super().__init__([Fault((), message, remedy, line)])


def parse(text: str) -> Any:
    """Return the value of a document. Raises ``BadDocument`` with the line of the first fault."""
    fault: Exception | None = None
    if text.lstrip()[:1] in ("{", "["):
        try:
            return read_json(text)
        except (ValueError, RecursionError) as error:
            fault = error  # read as YAML, which it may be, and which knows the line of a fault
    try:
        return _DocumentBuilder().value(text)
    except TooLarge:
        if fault is None:
            raise
        line = fault.lineno if isinstance(fault, json.JSONDecodeError) else 1
        problem = fault.msg if isinstance(fault, json.JSONDecodeError) else str(fault)
        raise BadDocument([Fault((), f"is not JSON: {problem}", "write it by a program", line)]) from fault


def lines(text: str) -> dict[Path, int]:
    """Return the line, from 1, of every value in a document that ``parse`` accepts as YAML.

    Raises ``TooLarge`` for JSON of more values than YAML may have.
    """
    builder = _DocumentBuilder()
    builder.value(text)
    return builder.lines


def render(document: object) -> str:
    """Return YAML text that ``parse`` turns back into the same document."""
    return yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=False
    )


class _DocumentBuilder:
    """Builds one document from the parser's events. ``lines`` holds the line of each value."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self._open: list[tuple[Any, Path]] = []
        self._key: tuple[str, int] | None = None
        self._root: list[Any] = []

    def value(self, text: str) -> Any:
        if len(text) > MOST_YAML:
            raise TooLarge(f"has {len(text)} characters; YAML may have {MOST_YAML}")
        if len(_TAG_DIRECTIVE.findall(text)) > MOST_TAG_DIRECTIVES:
            raise BadDocument([Fault((), "has %TAG directives, which are not read here", "leave them out")])
        documents = 0
        try:
            for event in _events(text):
                documents += isinstance(event, yaml.DocumentStartEvent)
                if documents > 1:
                    raise self._fault(event, "a second document starts here", "keep one document a file")
                self._take(event)
        except yaml.YAMLError as error:
            raise BadDocument([_syntax_fault(error, text)]) from error
        if not self._root:
            raise BadDocument([Fault((), "is empty")])
        return self._root[0]

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.AliasEvent):
            raise self._fault(event, f"the alias *{event.anchor} is not read here", "write the value out")
        if isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.ScalarEvent):
            if self._open and isinstance(self._open[-1][0], dict) and self._key is None:
                self._take_key(event)
            else:
                self._path_of(event, self._scalar(event))
        elif isinstance(event, yaml.CollectionStartEvent):
            if event.tag not in (None, "!"):
                raise self._fault(event, f"the tag {event.tag} is not read here", "leave it out")
            if len(self._open) >= MAX_DEPTH:
                raise self._fault(event, f"is nested deeper than {MAX_DEPTH} levels", "write it flatter")
            value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._open.append((value, self._path_of(event, value)))

    def _take_key(self, event: yaml.ScalarEvent) -> None:
        key = event.value
        if key in self._open[-1][0]:
            first = self.lines[(*self._open[-1][1], key)]
            remedy = f"it is given already on line {first}; keep one"
            raise self._fault(event, f"{key!r} is given twice", remedy)
        self._key = key, _line(event)

    def _path_of(self, event: yaml.Event, value: Any) -> Path:
        line = _line(event)
        if len(self.lines) >= MOST_VALUES:
            raise TooLarge(f"has more than {MOST_VALUES} values", line)
        if not self._open:
            self._root.append(value)
            path: Path = ()
        else:
            parent, at = self._open[-1]
            if isinstance(parent, list):
                path = (*at, len(parent))
                parent.append(value)
            elif self._key is None:
                raise self._fault(event, "a mapping's key is a list or a mapping", "give a word as the key")
            else:
                key, line = self._key
                self._key = None
                path = (*at, key)
                parent[key] = value
        self.lines[path] = line
        return path

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if event.tag not in _STRING_TAGS:
            raise self._fault(event, f"the tag {event.tag} is not read here", "leave it out")
        if event.tag is not None or not event.implicit[0]:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.match(text):
            if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
                raise self._fault(event, f"{_short(text)} does not fit in 64 bits", "give a smaller number")
            return int(text)
        if _NOT_FINITE.match(text) or (_FLOAT.match(text) and not math.isfinite(float(text))):
            raise self._fault(event, f"{_short(text)} is not a finite number", "give a finite number")
        return float(text) if _FLOAT.match(text) else text

    def _fault(self, event: yaml.Event, message: str, remedy: str) -> BadDocument:
        path = self._open[-1][1] if self._open else ()
        if self._key:
            path = (*path, self._key[0])
        elif self._open and isinstance(self._open[-1][0], list):
            path = (*path, len(self._open[-1][0]))
        return BadDocument([Fault(path, message, remedy, _line(event))])


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _events(text: str) -> Iterator[yaml.Event]:
    return yaml.parse(text, Loader=yaml.CSafeLoader)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _syntax_fault(error: yaml.YAMLError, text: str) -> Fault:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.encode()[: error.position].count(b"\n") + 1
        return Fault((), f"is not YAML: {error.reason}", "remove the character", line)
    if not isinstance(error, yaml.MarkedYAMLError):
        return Fault((), f"is not YAML: {error}", "check it with a YAML editor")
    mark = error.problem_mark or error.context_mark
    line = min(mark.line, text.rstrip("\n").count("\n")) + 1 if mark else 1
    problem = error.problem or error.context or "it cannot be read"
    remedy = "quote text that has a meaning in YAML, and indent with spaces"
    return Fault((), f"is not YAML: {problem}", remedy, line)


class _Dumper(yaml.CSafeDumper):
    """Quotes every text that this module or an older reader would take for another type."""

    def ignore_aliases(self, _: object) -> bool:
        return True


# Answers of a server are objects of a subclass of dict.
_Dumper.add_multi_representer(dict, yaml.representer.SafeRepresenter.represent_dict)

# PyYAML's own patterns follow YAML 1.1, where 1e9 is text. Unquoted, it would come back as a number.
for _tag, _pattern in (("float", _FLOAT), ("int", _INTEGER)):
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, list("-+.0123456789"))
