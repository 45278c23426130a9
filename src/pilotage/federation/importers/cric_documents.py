"""Documents of the CRIC kind: turn JSON text into records by name, with lines, and find each document's
kind."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from pilotage.federation.importers.import_result import Action, Entry, ImportSource, RefusedEntry

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
"""Fields that identify the kind of a document."""

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
"""Names of documents in a file with several."""

MAX_DEPTH = 50
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Mapped(dict[str, Any]):
    """A JSON mapping. ``again`` lists repeated keys; their first value counts."""

    again: tuple[str, ...] = ()


class Document(NamedTuple):
    """Records of one kind: by name, or pairs of a place and a record if they have no names."""

    kind: CricKind
    source: ImportSource
    content: Any
    line: Callable[..., int | None]


class Unreadable(RefusedEntry):
    """A file, or a part of it, without any record."""

    def __init__(self, line: int | None, field: str, message: str, remedy: str) -> None:
        super().__init__(field, "", message, remedy)
        self.line = line


def documents(source: ImportSource) -> Iterator[Document]:
    """Yield the documents of a file: one, or several by name. Raises ``Unreadable``."""
    content = _parsed(source.text.removeprefix("\ufeff"))
    lines = KeyLines(source.text)
    if isinstance(content, Mapped) and content and _SECTIONS.keys() >= {key.lower() for key in content}:
        for name, part in content.items():
            yield Document(_SECTIONS[name.lower()], source, part, _below(lines, name))
    elif name := _own_name(content):
        # A single record that contains its name, instead of a mapping from its name.
        alone = Mapped({name: content})
        yield Document(_kind(alone), source, alone, lambda *path: lines.of(*path[1:]))
    elif _is_record(content):
        text = "is one record, and does not say its name"
        raise Unreadable(1, "name", text, 'write it under its name, as {"NAME": {...}}')
    else:
        yield Document(_kind(content), source, content, lines.of)


def _own_name(content: Any) -> str:
    """Return the name inside a single record; empty if the content is no record."""
    if not isinstance(content, Mapped) or not _marks(content):
        return ""
    names = (content.get(key) for key in ("name", "nickname", "panda_queue"))
    return next((name for name in names if isinstance(name, str) and name.strip()), "")


def _is_record(content: Any) -> bool:
    """Return whether the content has the fields of one record, and not a record under each name."""
    plain = isinstance(content, Mapped) and not all(
        isinstance(value, dict | list) for value in content.values()
    )
    return plain and _marks(content) > 1


def _marks(content: Mapped) -> int:
    """Return how many fields identify the content as a record of its kind."""
    return max(len(marks & set(content)) for marks in _MARKS.values())


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
    # Go level by level: recursion would hit Python's limit.
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
    mapping = Mapped()
    again = []
    for name, value in pairs:
        key = _clean(name)
        if key in mapping:
            again.append(key)
        else:
            mapping[key] = _clean(value)
    mapping.again = tuple(again)
    return mapping


def _clean(value: Any) -> Any:
    """Return the value without unpaired surrogates, because no file can contain them."""
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value


def _integer(text: str) -> int | str:
    # int() takes quadratic time for long numbers, and Python refuses more than 4300 digits.
    return int(text) if len(text) <= 20 else text


def _kind(content: Any) -> CricKind:
    """Guess a document's kind: the one with the most of its records' fields."""
    items = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    fields = {str(name).lower() for item in items if isinstance(item, dict) for name in item}
    likeliest = max(_MARKS, key=lambda kind: len(fields & _MARKS[kind]))
    if fields & _MARKS[likeliest]:
        return likeliest
    if fields and _is_matrix(content):
        return "closeness"
    kinds = "queues, sites, storages, their status or usage, software tags, or closeness"
    raise Unreadable(1, "", "is no document that is known here", f"give {kinds} as CRIC writes them")


def _is_matrix(content: Any) -> bool:
    rows = content.values() if isinstance(content, dict) else ()
    cells = [cell for row in rows if isinstance(row, dict) for cell in row.values()]
    return all(isinstance(cell, int | float) for cell in cells)


class KeyLines:
    """Line numbers of keys in JSON text. They come from a search, not from a parser, and may be wrong."""

    def __init__(self, text: str) -> None:
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._keys: dict[str, list[int]] = {}
        for match in _STRING.finditer(text):
            if match[2]:
                self._keys.setdefault(match[1], []).append(match.start())

    def of(self, *path: str) -> int | None:
        """Return the line, from 1, of the key at the end of a path, or of its parent if the key is not
        found."""
        at = -1
        for key in path:
            places = self._keys.get(json.dumps(key, ensure_ascii=False)[1:-1], [])
            index = bisect_left(places, at)
            if index == len(places):
                break
            at = places[index]
        return None if at < 0 else bisect_right(self._breaks, at) + 1


class Record:
    """The fields of one record. It remembers which ones were read."""

    def __init__(self, fields: Mapped, entry: Entry, line: Callable[[str], int | None]) -> None:
        self.entry = entry
        self._fields = fields
        self._line = line
        self._read: set[str] = set()
        for name in fields.again:
            entry.note("dropped", name, "", "is given again: the first counts", line(name))

    def get(self, *names: str) -> Any:
        """Return the value of the first non-empty field; None if all are empty."""
        name = self.name_of(*names)
        self._read.add(name)
        value = self._fields.get(name)
        return None if _empty(value) else value

    def peek(self, name: str) -> Any:
        """Return the value of a field without marking it as read."""
        return self._fields.get(name)

    def all(self) -> Mapped:
        """Return every field."""
        self._read.update(self._fields)
        return self._fields

    def name_of(self, *names: str) -> str:
        """Return the name of the first non-empty field."""
        return next((name for name in names if not _empty(self._fields.get(name))), names[0])

    def text(self, *names: str) -> str:
        """Return the value of the first non-empty field as text. Raises ``RefusedEntry``."""
        value = self.get(*names)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise RefusedEntry(self.name_of(*names), value, "is not text", "give text")
        return value.strip()

    def texts(self, *names: str) -> list[str]:
        """Return a list of texts. The field may also be one text with commas.

        Raises ``RefusedEntry``.
        """
        value = self.get(*names)
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise RefusedEntry(self.name_of(*names), value, "is not a list of texts", "give a list of texts")
        return value

    def note(self, action: Action, name: str, text: str) -> None:
        """Note what happened to a field."""
        self.entry.note(action, name, self._fields.get(name), text, self._line(name))

    def refuse(self, refused: RefusedEntry) -> None:
        """Refuse the record."""
        self.entry.refuse(refused, self._line(refused.field))

    def drop_the_rest(self, reasons: Mapping[str, str]) -> None:
        """Note every non-empty field that was not read."""
        for name, value in self._fields.items():
            if name not in self._read and not _empty(value):
                text = reasons.get(name, "has no place in the model")
                self.entry.note("dropped", name, value, text, self._line(name), matters=False)


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def records(
    document: Document, entry: Callable[[str, int | None, str], Entry]
) -> Iterator[tuple[str, Record]]:
    """Yield the records of a document by name.

    Refuse items that are no records. ``entry`` makes an entry for each.
    """
    content, file = document.content, document.source.name
    for name in getattr(content, "again", ()):
        record_entry = entry(file, document.line(name), name)
        record_entry.refuse(RefusedEntry("", "", "is given already above", "keep one of them"))
    for name, fields in _named(content):
        record_entry = entry(file, document.line(name), name)
        if not name.strip():
            record_entry.refuse(RefusedEntry("name", name, "has no name", "name it"))
        elif not isinstance(fields, Mapped):
            record_entry.refuse(RefusedEntry("", fields, "is no record", "give its fields as name: value"))
        else:
            yield name, Record(fields, record_entry, lambda field, name=name: document.line(name, field))  # type: ignore[misc]


def _named(content: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        yield from content.items()
        return
    earlier: set[str] = set()
    for item in content if isinstance(content, list) else (content,):
        names = (
            (item.get(key) for key in ("name", "nickname", "panda_queue")) if isinstance(item, dict) else ()
        )
        name = next((name for name in names if isinstance(name, str)), "")
        yield name, item if name not in earlier else f"{name}, given already above"
        earlier.add(name)
