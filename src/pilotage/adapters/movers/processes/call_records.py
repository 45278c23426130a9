"""Messages between a server and its processes of blocking calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from pilotage.adapters.movers.processes.worker import fingerprint
from pilotage.model.records.federation import Storage
from pilotage.ports.moving import ScanLimits, Space, StorageError, WrongFileError, WrongPatternError

MESSAGE = 1 << 17
"""Bytes of a file per message, as many as a socket holds. With 1 MiB the rate fell to a quarter."""

KINDS: Mapping[str, type[StorageError]] = {
    kind.__name__: kind for kind in (WrongPatternError, WrongFileError, StorageError)
}
"""Errors by name, the narrowest first. Only these kinds are sent, because the other side may not know a
library's exceptions."""


@dataclass(frozen=True, slots=True)
class CallOrder:
    """A method of the mover, its storage, and its other arguments."""

    method: str
    storage: Storage
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CallResult:
    """A call's return value, or the kind and message of its error.

    ``missing`` is true if a missing file caused the error.
    """

    value: Any = None
    kind: str = ""
    error: str = ""
    missing: bool = False

    def get(self) -> Any:
        """Return the value. Raises StorageError or a subclass."""
        if self.kind:
            raise KINDS[self.kind](self.error) from (FileNotFoundError() if self.missing else None)
        return self.value


def call_code() -> str:
    """Return a fingerprint of the code for messages between servers and processes of calls."""
    return fingerprint(CallOrder, CallResult, Storage, ScanLimits, Space)


class ReceivedBytes:
    """The bytes of a file from a connection as a stream. ``ended`` is true after the last one."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection
        self._left = memoryview(b"")
        self.ended = False

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""
        if not (self._left or self.ended):
            self._left = memoryview(self._connection.recv_bytes())
            self.ended = not self._left
        data, self._left = self._left[:size], self._left[size:]
        return bytes(data)
