"""Services that run in their own threads from start to stop."""

import threading
from collections.abc import Callable, Mapping


class BackgroundService:
    """A service with ``threads``: functions by name, which end soon after ``_stopping`` is set.

    ``stop`` waits for each of them for ``patience`` s; None: until it ends.
    """

    def __init__(self, threads: Mapping[str, Callable[[], None]], patience: float | None = None) -> None:
        self._stopping = threading.Event()
        self._patience = patience
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True) for name, run in threads.items()
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let the threads end, and wait for them."""
        self._stopping.set()
        self.wake()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(self._patience)

    def wake(self) -> None:
        """Wake threads that wait for something else than the end."""
