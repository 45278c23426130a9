"""Numbers, names and times as words."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # commands load this module, and need no decisions
    from pilotage.model.documents.decision import Value

MOST_RUNS = 10
"""Most runs of record numbers to show."""


def number(value: "Value") -> str:
    """Return a value in few digits: whole from 1000 on, otherwise three digits."""
    if isinstance(value, float):
        return f"{value:.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def amount(value: "Value", unit: str) -> str:
    """Return a value with its unit: ``300 s``, ``4 cores``, ``1 GPU``."""
    is_one = value == 1 and len(unit) > 1 and unit.endswith("s")
    return f"{number(value)} {unit[:-1] if is_one else unit}".rstrip()


def few(names: Sequence[str], limit: int = 3) -> str:
    """Return the first names, and dots if there are more."""
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def shortened(ids: Iterable[int]) -> str:
    """Return numbers as runs: ``1-5, 9``.

    If there are very many runs, return the first ones and the total.
    """
    runs: list[list[int]] = []
    numbers = sorted(set(ids))
    for id_ in numbers:
        if runs and id_ == runs[-1][-1] + 1:
            runs[-1][1:] = [id_]
        else:
            runs.append([id_])
    text = ", ".join("-".join(map(str, run)) for run in runs[:MOST_RUNS])
    return text if len(runs) <= MOST_RUNS else f"{text}, ... ({len(numbers)} in all)"
