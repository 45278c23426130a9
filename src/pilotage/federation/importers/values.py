"""Convert strangers' values to the model's: plausible numbers, truths, and names."""

import math
import re
from typing import NamedTuple

from pilotage.federation.importers.import_result import Action, Entry, RefusedEntry

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?([0-9]{1,18}(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.:@+-]+")
_LONGEST_NAME = 200
_TRUTHS = {
    "true": True,
    "yes": True,
    "y": True,
    "1": True,
    "false": False,
    "no": False,
    "n": False,
    "0": False,
}


class Measure(NamedTuple):
    """A unit, and the plausible range in it: a value beyond must be in another unit. 0 is always valid."""

    unit: str
    least: float
    greatest: float
    whole: bool = False


CORES = Measure("cores", 1, 100_000, whole=True)
MEMORY = Measure("MB", 100, 100_000_000)
DISK = Measure("MB", 10, 1_000_000_000_000)
SECONDS = Measure("s", 60, 10 * 365 * 86400)
MINUTES = Measure("minutes", 1, 10 * 365 * 1440)
COUNT = Measure("a whole number", 1, 2**31 - 1, whole=True)
RATE = Measure("kB/s", 0, 1e9)
CORE_POWER = Measure("HS23 per core", 0.1, 1000)


def number(field: str, value: object, measure: Measure) -> float | None:
    """Parse a number in the measure's unit; None for a missing or blank value. Raises ``RefusedEntry``."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    amount = _parsed(value, measure)
    if amount is None:
        kind = "a whole number" if measure.whole else "a number"
        raise RefusedEntry(field, value, f"is not {kind}", f"give {measure.unit} in digits")
    if amount < 0:
        raise RefusedEntry(field, value, "is negative", f"give {measure.unit}, or 0 for no limit")
    if amount and not measure.least <= amount <= measure.greatest:
        between = f"{measure.least:.12g} to {measure.greatest:.12g}"
        raise RefusedEntry(
            field, value, f"is beyond reason as {measure.unit}", f"give {between}: is it in another unit?"
        )
    return amount


def whole(field: str, value: object, measure: Measure) -> int | None:
    """Parse a number as ``number`` does, and cut it to a whole one."""
    amount = number(field, value, measure)
    return None if amount is None else int(amount)


def _parsed(value: object, measure: Measure) -> float | None:
    if isinstance(value, str):
        text = value.strip()
        if _INTEGER.fullmatch(text):
            return int(text)
        value = float(text) if _NUMBER.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if measure.whole and value != int(value):
        return None
    return value


def truth(field: str, value: object) -> bool | None:
    """Return true or false, None if there is neither. Raises ``RefusedEntry``."""
    if value is None or isinstance(value, bool):
        return value
    text = str(value).strip().lower() if isinstance(value, str | int) else "?"
    if text == "":
        return None
    if text not in _TRUTHS:
        raise RefusedEntry(field, value, "is neither true nor false", "give True or False")
    return _TRUTHS[text]


class Names:
    """Legal names, one for each original name. Illegal characters become ``-``."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def take(self, name: str, entry: Entry, field: str, fallback: str) -> str:
        """Return the legal form of a stranger's name. Note it at the entry if it differs."""
        legal = self._names.get(name)
        if legal is None:
            legal = self._names[name] = self._free(name, fallback)
            self._taken.add(legal)
        if legal != name:
            action: Action = "clipped" if len(name) > _LONGEST_NAME else "converted"
            entry.note(action, field, name, f"named {legal}: a name has letters, digits and _.:@+-")
        return legal

    def _free(self, name: str, fallback: str) -> str:
        plain = name
        if not _legal(name):
            # Keep ten characters for a number that distinguishes two cut names.
            plain = re.sub("--+", "-", _ILLEGAL.sub("-", name)).lstrip("_.:@+-")[: _LONGEST_NAME - 10]
        plain = plain or fallback
        candidate, number = plain, 2
        while candidate in self._taken:
            candidate, number = f"{plain}-{number}", number + 1
        return candidate


def _legal(name: str) -> bool:
    return bool(name) and len(name) <= _LONGEST_NAME and not _ILLEGAL.search(name) and name[0].isalnum()
