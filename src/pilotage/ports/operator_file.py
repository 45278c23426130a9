"""The port to a text that an operator leaves for a step."""

from typing import Protocol


class Inbox(Protocol):
    """A place where one text at a time is left."""

    @property
    def name(self) -> str:
        """What people call it."""

    def read(self) -> str | None:
        """Read the text that was left, again and again until it is :meth:`done`; None where there is none.

        Raises OSError where it cannot be read, ValueError where it is no text or too large.
        """

    def done(self) -> None:
        """Mark the text that was read last as read. Raises OSError."""
