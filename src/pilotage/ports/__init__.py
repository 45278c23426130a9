"""Ports: what steps need of the outside. Adapters implement them, and a runtime hands them to the steps."""

from collections.abc import Callable

Clock = Callable[[], float]
"""Tells the time in s since 1970, UTC."""

Seeds = Callable[[], int]
"""Gives a new seed for a world."""
