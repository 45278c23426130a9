"""Strict JSON from outside: refuse what the standard reader accepts but no document of Pilotage has."""

import json
import math
from collections.abc import Callable
from typing import Any


def read_json(text: str, make: Callable[[list[tuple[str, Any]]], dict[str, Any]] = dict) -> Any:
    """Return the value of a JSON text; ``make`` makes its objects.

    Raises ValueError if the text is no JSON, or has a key twice in an object, an integer beyond 64 bits, a
    number that is not finite, or half a surrogate pair. Raises RecursionError if it is nested too deeply.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = make(pairs)
        if len(value) != len(pairs):
            raise ValueError("a key is given twice")
        return value

    value = json.loads(
        text, object_pairs_hook=unique, parse_int=_integer, parse_float=_float, parse_constant=_refuse
    )
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is a ValueError
    return value


def _integer(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise ValueError("an integer does not fit in 64 bits")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    return value


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a finite number")
