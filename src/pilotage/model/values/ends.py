"""When something ends, as people write it: in some hours or days, or at a moment."""

import re
from datetime import datetime, tzinfo

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0}


def end_of(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Return the moment of ``30m``, ``2h``, ``3d`` or ``2026-11-30T18:00``, in s since 1970 UTC.

    A moment without an offset is of the ``zone``; none: of this machine's. Raises ValueError.
    """
    if span := re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([mhd])", text):
        return now + float(span[1]) * _UNITS[span[2]]
    try:
        given = datetime.fromisoformat(text)
        return (given if given.tzinfo or zone is None else given.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("give 30m, 2h, 3d, or a time such as 2026-11-30T18:00") from None
