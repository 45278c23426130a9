"""Durations in s: units, limits of Pilotage, and how people and batch systems write them."""

import re
from datetime import datetime, tzinfo

_SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)([mhd])")
_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0}

KNOWN_FOR = 5.0
"""Most s until a process notices what another one wrote, unless a reader names another time."""

LEAST_ARCHIVE_DAYS = 7
"""Days between a record's end and its archiving. Guards and passes look back no further."""

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def is_fresh(read_at: float | None, time: float, seconds: float = KNOWN_FOR) -> bool:
    """Return whether values read at ``read_at`` are fresh, in s since 1970; not if the clock was set back."""
    return read_at is not None and 0 <= time - read_at <= seconds


def end_of(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Return the moment of ``30m``, ``2h``, ``3d`` or ``2026-11-30T18:00``, in s since 1970 UTC.

    A moment without an offset is in the ``zone``; None: this machine's. Raises ValueError.
    """
    if span := _SPAN.fullmatch(text):
        return now + float(span[1]) * _UNITS[span[2]]
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo or zone is None else moment.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("give 30m, 2h, 3d, or a time such as 2026-11-30T18:00") from None


def begin_of(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Return the moment that was ``2h`` or ``3d`` ago, or a date such as ``2026-11-30``; see ``end_of``."""
    if span := _SPAN.fullmatch(text):
        return now - float(span[1]) * _UNITS[span[2]]
    try:
        return end_of(text, now, zone)
    except ValueError:
        raise ValueError("give 2h, 3d, or a day such as 2026-11-30") from None


def slurm_seconds(limit: str) -> int | None:
    """Return the seconds of a time limit in Slurm's syntax; None for none.

    ``30`` means minutes, ``30:00`` minutes and seconds, ``1-12`` days and hours, ``1-12:30`` also minutes.
    """
    match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", limit.strip(), re.ASCII)
    if match is None:
        return None
    days, *rest = match.groups()
    numbers = [int(part) for part in rest if part is not None]
    # After days, hours come first. Without days, minutes come first, unless there are three parts.
    first = 0 if days is not None or len(numbers) == 3 else 1
    clock = sum(number * unit for number, unit in zip(numbers, (3600, 60, 1)[first:], strict=False))
    return int(days or 0) * 86_400 + clock
