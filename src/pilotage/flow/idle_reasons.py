"""Phrases that steps share in saying why they change nothing."""

from datetime import UTC, datetime


def counted(count: int, noun: str) -> str:
    """Return ``1 job`` or ``3 jobs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def moment(time: float) -> str:
    """Return a time in s since 1970 for people, in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
