"""Look-ups of storages for people: each person has one at a time at one storage."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pilotage.model.values.identity import Identity


class LookUps:
    """Places of people who list a storage. A storage has few, so one person must not take them all."""

    def __init__(self) -> None:
        self._freed = threading.Condition()
        self._taken: set[tuple[str, str, str]] = set()

    @contextmanager
    def place(self, storage: str, person: Identity, seconds: float) -> Iterator[None]:
        """Wait for a person's place at a storage, and take it until the end of the context.

        Raises TimeoutError if it is not free within some seconds.
        """
        key = (storage, person.vo, person.name)
        with self._freed:
            if not self._freed.wait_for(lambda: key not in self._taken, seconds):
                raise TimeoutError(f"another look-up of yours at {storage} has not ended")
            self._taken.add(key)
        try:
            yield
        finally:
            with self._freed:
                self._taken.discard(key)
                self._freed.notify_all()
