"""Ports: what steps need from the outside. Adapters implement them, and a runtime hands them to the steps."""

from collections.abc import Callable

Clock = Callable[[], float]
"""Returns the time in s since 1970, UTC."""

Seeds = Callable[[], int]
"""Returns a new seed for a world."""
