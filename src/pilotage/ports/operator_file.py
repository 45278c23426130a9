"""The port to a text that an operator leaves for a step."""

from typing import Protocol


class Inbox(Protocol):
    """A place for one text at a time."""

    @property
    def name(self) -> str:
        """Its name for people."""

    def read(self) -> str | None:
        """Return the text that was left, the same until it is ``done``; None if there is none.

        Raises OSError if it cannot be read, ValueError if it is no text or too large.
        """

    def done(self) -> None:
        """Mark the text that was read last as done. Raises OSError."""
