"""Messages between a server and its processes of blocking calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from pilotage.model.records.federation import Storage
from pilotage.ports.moving import ScanLimits, Space, StorageError, WrongFileError, WrongPatternError

from .worker import fingerprint

MESSAGE = 1 << 17
"""Bytes of a file in a message, as many as a socket holds: 1 MiB came at a fourth of the rate."""

KINDS: Mapping[str, type[StorageError]] = {
    kind.__name__: kind for kind in (WrongPatternError, WrongFileError, StorageError)
}
"""Errors by name, the narrowest first. Their own kind is sent, for a library's may not be read elsewhere."""


@dataclass(frozen=True, slots=True)
class CallOrder:
    """A method of the mover, its storage, and its other arguments."""

    method: str
    storage: Storage
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CallResult:
    """The value that a call returned, or the name of the kind of its error, and its words.

    ``missing`` says that the error came of a file that is not there.
    """

    value: Any = None
    kind: str = ""
    error: str = ""
    missing: bool = False

    def get(self) -> Any:
        """Return the value. Raises StorageError, also of a kind of its own."""
        if self.kind:
            raise KINDS[self.kind](self.error) from (FileNotFoundError() if self.missing else None)
        return self.value


def call_code() -> str:
    """Tell the code of what server and processes of calls say to each other."""
    return fingerprint(CallOrder, CallResult, Storage, ScanLimits, Space)


class ReceivedBytes:
    """The bytes of a file that come over a connection, as a stream; ``ended`` once the last was read."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection
        self._left = memoryview(b"")
        self.ended = False

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""
        if not (self._left or self.ended):
            self._left = memoryview(self._connection.recv_bytes())
            self.ended = not self._left
        given, self._left = self._left[:size], self._left[size:]
        return bytes(given)
