"""Answers of a server, which may be of another version, or no Pilotage: each is checked where it is read.

``make docs`` writes ``answer_forms.json`` from the server's OpenAPI document. A newer server's answers may
have more fields. An older server's may lack some: this is no fault until somebody reads them.
"""

import json
from collections.abc import Mapping
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from pilotage.model.values.strict_json import read_json

from .errors import BadAnswer, MissingField

LARGEST_ANSWER = 64 << 20
"""Most bytes of an answer, but of a world."""

LARGEST_WORLD = 1 << 30
"""Most bytes of the answer that holds the world of a large federation."""

_FORMS = Path(__file__).with_name("answer_forms.json")

_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "map": "an object",
    "list": "a list",
    "tuple": "a list",
}


class AnswerObject(dict[str, Any]):
    """An object of an answer. To read a field that it lacks raises ``MissingField``."""

    def __missing__(self, field: str) -> Any:
        raise MissingField(f"the server's answer lacks {field}")


class _Misfit(NamedTuple):
    """A value of the wrong kind: its place, such as ``.jobs[2].id``, the right kind, and the value."""

    place: str
    kind: str
    value: Any

    def at(self, place: str) -> "_Misfit":
        return self._replace(place=f"{place}{self.place}")

    def __str__(self) -> str:
        found, place = _kind(self.value), self.place.lstrip(".")
        where = f" at {place if len(place) <= 100 else f'{place[:97]}...'}" if place else ""
        return f"the server's answer has {_WORDS[found]}{where}, and not {_WORDS[self.kind]}"


def most_bytes(template: str) -> int:
    """Return how large the answer to a request may be."""
    return LARGEST_WORLD if template == "/world" else LARGEST_ANSWER


def read_answer(content: bytes | str) -> Any:
    """Return an answer's document. Raises ValueError and RecursionError if it is no JSON."""
    return read_json(content if isinstance(content, str) else content.decode(), AnswerObject)


def check_answer(method: str, template: str, answer: Any) -> None:
    """Raise ``BadAnswer`` if a value in the answer to a request is of another kind than it should."""
    operations, models = forms()
    form = operations.get(f"{method} {template}")
    if form is not None and (misfit := _misfit(form, answer, models)):
        raise BadAnswer(str(misfit))


@cache
def forms() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the forms of answers by method and address, and the models that they name."""
    found = json.loads(_FORMS.read_bytes())
    return found["operations"], found["models"]


def _misfit(form: str | list[Any], value: Any, models: Mapping[str, Any]) -> _Misfit | None:
    """Return the first value that does not fit its form."""
    if isinstance(form, str):
        if form.startswith("#"):
            return _misfit_of_model(models[form[1:]], value, models)
        return None if _fits(form, value) else _Misfit("", form, value)
    kind, *inner = form
    if kind == "one of":
        misfits = [_misfit(one, value, models) for one in inner]
        # The deepest is of the form that was meant.
        return None if None in misfits else max(filter(None, misfits), key=lambda one: len(one.place))
    if not isinstance(value, dict if kind == "map" else list):
        return _Misfit("", kind, value)
    if isinstance(value, dict):
        found = ((f".{name}", _misfit(inner[0], one, models)) for name, one in value.items())
    else:
        # A tuple that is too short lacks values, as an object may lack fields.
        kinds = repeat(inner[0]) if kind == "list" else inner
        parts = enumerate(zip(kinds, value, strict=False))
        found = ((f"[{at}]", _misfit(one, part, models)) for at, (one, part) in parts)
    return next((misfit.at(place) for place, misfit in found if misfit), None)


def _misfit_of_model(fields: Mapping[str, Any], value: Any, models: Mapping[str, Any]) -> _Misfit | None:
    if not isinstance(value, dict):
        return _Misfit("", "map", value)
    for name, form in fields.items():
        if name in value and (misfit := _misfit(form, value[name], models)):
            return misfit.at(f".{name}")
    return None


def _fits(kind: str, value: Any) -> bool:
    if kind == "anything":
        return True
    found = _kind(value)
    return found == kind or (kind == "number" and found == "integer")


def _kind(value: Any) -> str:
    """Return the kind of a value of JSON."""
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (int, "integer"), (float, "number"), (dict, "map"), (list, "list")):
        if isinstance(value, kind):
            return name
    return "null"
