"""Answers of a server. It may have another version, or be no Pilotage: fields are checked before use.

A newer server's answers may have more fields. An older one's may lack some, which is a fault only
for a reader of these fields.
"""

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, NamedTuple

from pilotage.model.values.strict_json import read_json

from .errors import BadAnswer, MissingField

LARGEST_ANSWER = 64 << 20
"""Most bytes of an answer, but of a world."""

LARGEST_WORLD = 1 << 30
"""Most bytes of the answer that holds the world of a large federation."""

Shape = Any
"""The parts of a value that are read: its type; ``[shape]`` of a list; ``{str: shape}`` of an object with any
names; ``{"name": shape}`` of a document, field by field; a tuple of shapes, if any of them fits; or None."""

_WORDS: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    NoneType: "null",
}


class AnswerObject(dict[str, Any]):
    """An object of an answer. To read a field that it lacks raises ``MissingField``."""

    def __missing__(self, field: str) -> Any:
        raise MissingField(f"the server's answer lacks {field}")


class _Misfit(NamedTuple):
    """A value of the wrong kind: its place, such as ``.jobs[2].id``, the right kind, and the value."""

    place: str
    kind: type
    value: Any

    def __str__(self) -> str:
        place = self.place.lstrip(".")
        position = f" at {place if len(place) <= 100 else f'{place[:97]}...'}" if place else ""
        return f"the server's answer has {_word(self.value)}{position}, and not {_WORDS[self.kind]}"


def most_bytes(template: str) -> int:
    """Return how large the answer to a request may be."""
    return LARGEST_WORLD if template == "/world" else LARGEST_ANSWER


def read_answer(content: bytes | str) -> Any:
    """Return an answer's document. Raises ValueError and RecursionError if it is no JSON."""
    return read_json(content if isinstance(content, str) else content.decode(), AnswerObject)


def check(answer: Any, shape: Shape) -> Any:
    """Return an answer. Raises ``BadAnswer`` if a value in it does not fit its shape."""
    if misfit := _misfit(answer, shape, ""):
        raise BadAnswer(str(misfit))
    return answer


def _misfit(value: Any, shape: Shape, place: str) -> _Misfit | None:
    """Return the first value that does not fit its shape."""
    if isinstance(shape, tuple):
        misfits = [_misfit(value, choice, place) for choice in shape]
        # The deepest misfit belongs to the shape that the server meant.
        return None if None in misfits else max(filter(None, misfits), key=lambda misfit: len(misfit.place))
    if not isinstance(shape, (dict, list)):
        return None if _fits(value, shape) else _Misfit(place, shape or NoneType, value)
    if not isinstance(value, type(shape)):
        return _Misfit(place, type(shape), value)
    misfits_inside = (_misfit(*part) for part in _parts(value, shape, place))
    return next(filter(None, misfits_inside), None)


def _parts(value: Any, shape: Any, place: str) -> Iterator[tuple[Any, Shape, str]]:
    """Yield the values in a list or an object that are read, each with its shape and its place."""
    if isinstance(shape, list):
        yield from ((part, shape[0], f"{place}[{at}]") for at, part in enumerate(value))
    elif str in shape:
        yield from ((part, shape[str], f"{place}.{name}") for name, part in value.items())
    else:
        yield from ((value[name], kind, f"{place}.{name}") for name, kind in shape.items() if name in value)


def _fits(value: Any, kind: Any) -> bool:
    return value is None if kind is None else type(value) is kind or (kind is float and type(value) is int)


def _word(value: Any) -> str:
    return "an object" if isinstance(value, dict) else _WORDS[type(value)]
