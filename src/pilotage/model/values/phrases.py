"""Numbers and times as people read them."""

from datetime import UTC, datetime

LAST_MOMENT = 253_402_300_799.0
"""The last second that has a date of four digits for its year, in s since 1970."""


def moment(time: float) -> str:
    """Return a moment (s since 1970) as date and time in UTC."""
    return datetime.fromtimestamp(min(max(time, 0.0), LAST_MOMENT), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def plural(count: int, noun: str) -> str:
    """Return ``1 job`` or ``3 jobs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
