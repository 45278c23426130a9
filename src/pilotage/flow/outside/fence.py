"""The fence: acts of a server that was frozen, or out of touch with its store, do not happen."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from pilotage.flow.outside.workers import TIME_LIMIT, WorkersPort
from pilotage.ports.presence import Presence

T = TypeVar("T")


class OutOfTouch(TimeoutError):
    """This server was out of touch with its store, so another may have taken over its work."""

    def __init__(self) -> None:
        super().__init__("this server was out of touch with its store")


class FencedWorkers:
    """Workers for calls that change something outside.

    A call happens only in the term of the lease of its request. Else its future fails with ``OutOfTouch``.
    """

    def __init__(self, workers: WorkersPort, presence: Presence) -> None:
        self._workers = workers
        self._presence = presence
        self.inline = workers.inline

    def call(self, place: str, function: Callable[[], T], time_limit: float = TIME_LIMIT) -> "Future[T]":
        """See ``WorkersPort.call``."""
        term = self._presence.term

        def checked() -> T:
            if term is None or self._presence.term != term:
                raise OutOfTouch
            return function()

        return self._workers.call(place, checked, time_limit)

    def close(self) -> None:
        """Do nothing: the workers behind belong to others too."""
