"""The functions of the ClassAd reference library that matchmaking needs. No other module imports the
library."""

from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

import classad2

from pilotage.model.documents.decision import Value
from pilotage.model.records.advertisements import Constant

Ad = Any
"""A ``classad2.ClassAd``. The library has no types."""


def ad(attributes: Mapping[str, Constant]) -> Ad:
    """Return an ad of constants."""
    classad = classad2.ClassAd()
    for name, value in attributes.items():
        classad[name] = _plain(value)
    return classad


def _plain(value: Constant) -> Constant:
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, str) and not value.isascii():
        # An unpaired surrogate, for example in the name of a task, would crash the process.
        return value.encode(errors="replace").decode()
    return value


def evaluated(text: str, my_ad: Ad, target_ad: Ad) -> object:
    """Return the value of an expression of ``my_ad``, with ``target_ad`` as TARGET.

    It is the error value if the library gives up, for example at several hundred operators in a row.
    """
    try:
        return _tree(text).eval(my_ad, target_ad)
    except classad2.ClassAdException:
        return classad2.Value.Error


def is_true(text: str, my_ad: Ad, target_ad: Ad) -> bool:
    """Return whether the library's matching takes an expression as true: true, or a number other than 0."""
    value = evaluated(text, my_ad, target_ad)
    return _is_number(value) and bool(value)


def _is_number(value: object) -> bool:
    # In Python the library's values for undefined and error are integers.
    return isinstance(value, bool | int | float) and not isinstance(value, classad2.Value)


def rank(text: str, my_ad: Ad, target_ad: Ad) -> float:
    """Return the value of a Rank. Anything but a number counts as 0."""
    value = evaluated(text, my_ad, target_ad)
    number = float(value) if _is_number(value) else 0.0  # type: ignore[arg-type]
    return number if isfinite(number) else 0.0


def plain_value(text: str, my_ad: Ad, target_ad: Ad) -> Value:
    """Return the value of an expression for people: numbers and truth values unchanged, other values as
    text."""
    value = evaluated(text, my_ad, target_ad)
    if isinstance(value, classad2.Value):
        return "undefined" if value == classad2.Value.Undefined else "error"
    if isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    return str(value)[:200]


@lru_cache(maxsize=20_000)
def _tree(text: str) -> classad2.ExprTree:
    return classad2.ExprTree(text)
