"""Turns of SQLite's writers: one at a time, over all threads and processes that use the file.

Waiting has a time limit: a process stopped during its turn would otherwise block all others for ever.
"""

import fcntl
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from pilotage.store.database.errors import StoreHeld

STOPPED_FOR = 3.0
"""Seconds that all waiters together wait for a stopped process before the error names it."""

LONGEST_TURN = 120.0
"""Seconds to wait for a running one, which may be migrating a large store."""

_LOOK_AT_HOLDER = 0.1


class WriterLock:
    """Admits one writer. Raises ``StoreHeld`` if its turn does not come."""

    def __init__(self, file: Path | None) -> None:
        self._lock = threading.Lock()
        self._path = file
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) if file else None
        self._waiter = _Waiter(self._file) if self._file is not None else None
        self._held_since = 0.0

    def __enter__(self) -> None:
        # A file lock belongs to the descriptor, which threads share: it separates processes, but not threads.
        if not self._lock.acquire(timeout=LONGEST_TURN):
            raise StoreHeld(self.holder() or "this process", LONGEST_TURN)
        try:
            if self._waiter is not None and not self._waiter.locks_now():
                self._wait(self._waiter)
            self._held_since = 0.0
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._lock.release()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def holder(self) -> str:
        """Return the other process that has the lock, and whether it is stopped; empty if unknown."""
        number = self._holder()
        return _described(number) if number else ""

    def _wait(self, waiter: "_Waiter") -> None:
        begun = time.monotonic()
        # Count from the first waiter that gave up: it waited for the same process.
        self._held_since = self._held_since or begun
        waiter.begin()
        try:
            while not waiter.has_locked(_LOOK_AT_HOLDER):
                self._give_up(begun, time.monotonic())
        except StoreHeld:
            if not waiter.end():
                raise

    def _give_up(self, begun: float, now: float) -> None:
        waited = now - self._held_since
        if waited < STOPPED_FOR:
            return
        number = self._holder()
        if now - begun >= LONGEST_TURN or (number and _is_stopped(number)):
            raise StoreHeld(_described(number) if number else "another process", waited)

    def _holder(self) -> int | None:
        """Return the other process that has locked the file, according to the kernel."""
        if self._file is None:
            return None
        inode = str(os.fstat(self._file).st_ino)
        with suppress(OSError, ValueError):
            for line in Path("/proc/locks").read_text().splitlines():
                # Lines with an arrow are waiting processes.
                kind, *_, number, place, _, _ = line.split()[1:]
                if kind == "FLOCK" and place.rpartition(":")[2] == inode and int(number) != os.getpid():
                    return int(number)
        return None


class _Waiter:
    """Waits for a file lock in its own thread, because the kernel supports no time limit.

    A caller that gives up leaves the thread to the next one.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._state = threading.Lock()
        self._asked, self._locked = threading.Semaphore(0), threading.Semaphore(0)
        self._wanted = self._waits = self._started = False

    def locks_now(self) -> bool:
        """Lock the file if it is free. While the thread waits, it would become the thread's lock too."""
        with self._state:
            return not self._waits and _locked(self._file)

    def begin(self) -> None:
        """Start the thread's wait, unless it waits already."""
        with self._state:
            self._wanted = True
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="store-turn", daemon=True).start()
            if not self._waits:
                self._waits = True
                self._asked.release()

    def has_locked(self, timeout: float) -> bool:
        """Return whether the caller gets the lock within ``timeout`` s."""
        return self._locked.acquire(timeout=timeout)

    def end(self) -> bool:
        """Give up. Return True if the file is locked after all."""
        with self._state:
            self._wanted = False
        return self._locked.acquire(blocking=False)

    def _run(self) -> None:
        while True:
            self._asked.acquire()
            # If another thread has closed the file, no caller waits for it.
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX)
                with self._state:
                    self._waits = False
                    if self._wanted:
                        self._wanted = False
                        self._locked.release()
                    else:
                        fcntl.flock(self._file, fcntl.LOCK_UN)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_stopped(number: int) -> bool:
    with suppress(OSError):
        # A program's name may hold spaces and brackets: the state begins after the last bracket.
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def _described(number: int) -> str:
    words: list[str] = []
    with suppress(OSError):
        words = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace").split("\0")
    # Show no options of the program: they may have secrets.
    named = [Path(word).name.partition("\n")[0][:40] for word in words if word and not word.startswith("-")]
    command = " ".join(named[:4])
    process = f"process {number}" + (f" ({command})" if command else "")
    if _is_stopped(number):
        return f"{process}, which is stopped: let it go on with `kill -CONT {number}`, or end it"
    return process
