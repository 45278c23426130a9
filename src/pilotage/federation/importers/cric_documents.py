"""Documents of the CRIC kind: JSON text to records by name, with the line of each, and of which kind."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from .import_result import Action, Entry, ImportSource, RefusedEntry

CricKind = Literal["queues", "sites", "storages", "blacklist", "usage", "software", "closeness"]

_MARKS: dict[CricKind, set[str]] = {
    "queues": {
        "corecount",
        "maxrss",
        "maxtime",
        "panda_resource",
        "wnconnectivity",
        "astorages",
        "capability",
    },
    "sites": {"ddmendpoints", "datapolicies", "presources", "tier_level"},
    "storages": {"is_tape", "token", "arprotocols", "rprotocols", "se", "space", "rc_site"},
    "blacklist": {
        "read_lan",
        "write_lan",
        "read_wan",
        "write_wan",
        "delete_wan",
        "delete_lan",
        "r",
        "w",
        "d",
    },
    "usage": {"storage", "expired", "rucio", "obsolete"},
    "software": {"cmtconfigs", "containers", "cvmfs", "architectures", "tags"},
    "closeness": {"src", "dst", "closeness"},
}
"""Fields of a record by which its document is known."""

_WORDS: dict[CricKind, str] = {
    "queues": "queues queue pandaqueues pandaqueue panda_queues",
    "sites": "sites site",
    "storages": "storages storage ddmendpoints ddmendpoint ddm_endpoints rses",
    "blacklist": "blacklist blacklisting blacklists ddmendpointstatus ddmblacklist",
    "usage": "usage rse_usage space",
    "software": "software tags sw_tags",
    "closeness": "closeness sitematrix site_matrix matrix links",
}
_SECTIONS: dict[str, CricKind] = {word: kind for kind, words in _WORDS.items() for word in words.split()}
"""Names of documents within a file that holds several."""

MAX_DEPTH = 50
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Mapped(dict[str, Any]):
    """A mapping of JSON; ``again`` has the keys that were given more than once, of which the first counts."""

    again: tuple[str, ...] = ()


class Document(NamedTuple):
    """Records of one kind: by name, or pairs of a place and a record where they have no names."""

    kind: CricKind
    source: ImportSource
    content: Any
    line: Callable[..., int | None]


class Unreadable(RefusedEntry):
    """A file, or a part of it, that no records can be taken from."""

    def __init__(self, line: int | None, field: str, message: str, remedy: str) -> None:
        super().__init__(field, "", message, remedy)
        self.line = line


def documents(source: ImportSource) -> Iterator[Document]:
    """The documents of a file: one, or several by name. Raises :class:`Unreadable`."""
    content = _parsed(source.text.removeprefix("\ufeff"))
    lines = KeyLines(source.text)
    if isinstance(content, Mapped) and content and _SECTIONS.keys() >= {key.lower() for key in content}:
        for name, part in content.items():
            yield Document(_SECTIONS[name.lower()], source, part, _below(lines, name))
    elif name := _own_name(content):
        # One record, that is not below its name but says it.
        alone = Mapped({name: content})
        yield Document(_kind(alone), source, alone, lambda *path: lines.of(*path[1:]))
    else:
        yield Document(_kind(content), source, content, lines.of)


def _own_name(content: Any) -> str:
    """The name that a single record gives itself; empty where the content is none."""
    if not isinstance(content, Mapped) or not any(marks & set(content) for marks in _MARKS.values()):
        return ""
    names = (content.get(key) for key in ("name", "nickname", "panda_queue"))
    return next((name for name in names if isinstance(name, str) and name.strip()), "")


def _below(lines: "KeyLines", section: str) -> Callable[..., int | None]:
    return lambda *path: lines.of(section, *path)


def _parsed(text: str) -> Any:
    try:
        content = json.loads(text, object_pairs_hook=_mapped, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise Unreadable(
            error.lineno, "", f"is not JSON: {error.msg}", "check it with a JSON editor"
        ) from error
    except RecursionError:
        content = None
    if content is None or _is_deep(content):
        raise Unreadable(1, "", "is empty or nested too deeply", "give documents as CRIC writes them")
    return content


def _is_deep(content: Any) -> bool:
    # Level by level: recursion would end at Python's own limit.
    level = [content]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for value in level
            if isinstance(value, list | dict)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    return bool(level)


def _mapped(pairs: list[tuple[str, Any]]) -> Mapped:
    made = Mapped()
    again = []
    for name, value in pairs:
        key = _clean(name)
        if key in made:
            again.append(key)
        else:
            made[key] = _clean(value)
    made.again = tuple(again)
    return made


def _clean(value: Any) -> Any:
    """The same without halves of characters, which no file could hold."""
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value


def _integer(text: str) -> int | str:
    # int() of a very long number takes time by its square, and Python refuses beyond 4300 digits.
    return int(text) if len(text) <= 20 else text


def _kind(content: Any) -> CricKind:
    """Guess a document's kind from the fields of its records: the kind with the most of its own."""
    items = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    fields = {str(name).lower() for item in items if isinstance(item, dict) for name in item}
    found = max(_MARKS, key=lambda kind: len(fields & _MARKS[kind]))
    if fields & _MARKS[found]:
        return found
    if fields and _is_matrix(content):
        return "closeness"
    known = "queues, sites, storages, their status or usage, software tags, or closeness"
    raise Unreadable(1, "", "is no document that is known here", f"give {known} as CRIC writes them")


def _is_matrix(content: Any) -> bool:
    rows = content.values() if isinstance(content, dict) else ()
    cells = [cell for row in rows if isinstance(row, dict) for cell in row.values()]
    return all(isinstance(cell, int | float) for cell in cells)


class KeyLines:
    """The lines of keys in JSON text: near enough for people, without a parser of its own."""

    def __init__(self, text: str) -> None:
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._keys: dict[str, list[int]] = {}
        for match in _STRING.finditer(text):
            if match[2]:
                self._keys.setdefault(match[1], []).append(match.start())

    def of(self, *path: str) -> int | None:
        """The line, from 1, of the key at the end of a path; of what holds it where it is not found."""
        at = -1
        for key in path:
            places = self._keys.get(json.dumps(key, ensure_ascii=False)[1:-1], [])
            index = bisect_left(places, at)
            if index == len(places):
                break
            at = places[index]
        return None if at < 0 else bisect_right(self._breaks, at) + 1


class Record:
    """The fields of one record; remembers which were read."""

    def __init__(self, fields: Mapped, entry: Entry, line: Callable[[str], int | None]) -> None:
        self.entry = entry
        self._fields = fields
        self._line = line
        self._read: set[str] = set()
        for name in fields.again:
            entry.note("dropped", name, "", "is given again: the first counts", line(name))

    def get(self, *names: str) -> Any:
        """The value of the first of these fields that is not empty; None where all are."""
        name = self.name_of(*names)
        self._read.add(name)
        value = self._fields.get(name)
        return None if _empty(value) else value

    def peek(self, name: str) -> Any:
        """The value of a field, without counting it as read."""
        return self._fields.get(name)

    def all(self) -> Mapped:
        """Every field."""
        self._read.update(self._fields)
        return self._fields

    def name_of(self, *names: str) -> str:
        """The first of these fields that says anything, as it is called in the record."""
        return next((name for name in names if not _empty(self._fields.get(name))), names[0])

    def text(self, *names: str) -> str:
        """The same for what should be text. Raises :class:`RefusedEntry`."""
        value = self.get(*names)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise RefusedEntry(self.name_of(*names), value, "is not text", "give text")
        return value.strip()

    def texts(self, *names: str) -> list[str]:
        """A list of texts, which may be one text with commas. Raises :class:`RefusedEntry`."""
        value = self.get(*names)
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise RefusedEntry(self.name_of(*names), value, "is not a list of texts", "give a list of texts")
        return value

    def note(self, action: Action, name: str, text: str) -> None:
        """Say what became of a field."""
        self.entry.note(action, name, self._fields.get(name), text, self._line(name))

    def refuse(self, refused: RefusedEntry) -> None:
        """Do not take the record."""
        self.entry.refuse(refused, self._line(refused.field))

    def drop_the_rest(self, why: Mapping[str, str]) -> None:
        """Note every field that was not read and says something."""
        for name, value in self._fields.items():
            if name not in self._read and not _empty(value):
                text = why.get(name, "has no place in the model")
                self.entry.note("dropped", name, value, text, self._line(name), matters=False)


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def records(
    document: Document, entry: Callable[[str, int | None, str], Entry]
) -> Iterator[tuple[str, Record]]:
    """The records of a document by name; what is none is refused. ``entry`` makes an entry of each."""
    content, file = document.content, document.source.name
    for name in getattr(content, "again", ()):
        made = entry(file, document.line(name), name)
        made.refuse(RefusedEntry("", "", "is given already above", "keep one of them"))
    for name, fields in _named(content):
        made = entry(file, document.line(name), name)
        if not name.strip():
            made.refuse(RefusedEntry("name", name, "has no name", "name it"))
        elif not isinstance(fields, Mapped):
            made.refuse(RefusedEntry("", fields, "is no record", "give its fields as name: value"))
        else:
            yield name, Record(fields, made, lambda field, name=name: document.line(name, field))  # type: ignore[misc]


def _named(content: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        yield from content.items()
        return
    seen: set[str] = set()
    for item in content if isinstance(content, list) else (content,):
        names = (
            (item.get(key) for key in ("name", "nickname", "panda_queue")) if isinstance(item, dict) else ()
        )
        name = next((name for name in names if isinstance(name, str)), "")
        yield name, item if name not in seen else f"{name}, given already above"
        seen.add(name)
