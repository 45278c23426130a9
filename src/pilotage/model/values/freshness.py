"""How long a process trusts values of a store that other processes write, too."""

KNOWN_FOR = 5.0
"""Seconds after which what others wrote counts here at the latest, unless a reader says otherwise."""


def is_fresh(read_at: float | None, time: float, seconds: float = KNOWN_FOR) -> bool:
    """Tell whether the read values still hold, at a time in s since 1970; a clock set back ends it."""
    return read_at is not None and 0 <= time - read_at <= seconds
