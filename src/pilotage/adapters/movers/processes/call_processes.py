"""Blocking calls of a mover in processes, one per process at a time.

A call that hangs ends with its process.
"""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pilotage.adapters.movers.processes.call_records import MESSAGE, CallOrder, ReceivedBytes, call_code
from pilotage.adapters.movers.processes.spawning import last_words, limit, spawn
from pilotage.model.records.federation import Storage
from pilotage.ports.moving import Delivered, Readable, StorageError

MOST_CALLS = 32
"""Most concurrent calls of a mover, each in a process. Further ones wait."""

MOST_ENDING = 32
"""Most killed processes that do not end because the kernel waits for their storage."""

START_LIMIT = 60.0
"""Seconds for a process to start and take its first call on a busy machine."""

END_LIMIT = 1.0
"""Seconds to wait for a process whose connection broke, to find out how it ended."""

SILENCE = 60.0
"""Seconds without a byte or an answer from a storage before a call is given up."""

CODE = call_code()
"""Fingerprint of the code as this process has loaded it."""


class CallProcess:
    """A process that answers calls. It is ``free`` for the next call once it has answered the last.

    ``held`` is true while a thread uses it and its connection.
    """

    def __init__(self, mover: str) -> None:
        self._process, self.connection = spawn("pilotage.adapters.movers.processes.call_worker", mover, CODE)
        self._seconds = START_LIMIT
        self.free = self.held = True

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Return whether the process is gone. One killed inside a kernel call stays for some time."""
        return self._process.poll() is not None

    def wait(self) -> None:
        """Wait until the process ends."""
        self._process.wait()

    def take(self, order: CallOrder, seconds: float) -> None:
        """Hand over a call. From now on, the process must send something every ``seconds``.

        Raises StorageError and TimeoutError if the process does not accept it.
        """
        self.free = False
        with self.talk():
            limit(self.connection, START_LIMIT, socket.SO_RCVTIMEO, socket.SO_SNDTIMEO)
            self.connection.send(order)
            self.connection.recv()
            limit(self.connection, seconds, socket.SO_RCVTIMEO, socket.SO_SNDTIMEO)
        self._seconds = seconds

    def result(self, *, last: bool = True) -> Any:
        """Return the result of a call. Raises StorageError (also the call's own) and TimeoutError."""
        with self.talk():
            answer = self.connection.recv()
        self.free = last or bool(answer.kind)
        return answer.get()

    @contextmanager
    def talk(self) -> Iterator[None]:
        """Turn errors of a connection into StorageError or TimeoutError."""
        try:
            yield
        except BlockingIOError:
            raise TimeoutError(f"no answer within {self._seconds:g} s") from None
        except (EOFError, OSError) as error:
            raise StorageError(self._last_words()) from error

    def send(self, chunk: bytes) -> None:
        """Send bytes of a file. An empty message ends it. Raises StorageError and TimeoutError."""
        with self.talk():
            self.connection.send_bytes(chunk)

    def kill(self) -> None:
        """End the process, even if it hangs. Another thread may be waiting for its answer."""
        self._process.kill()

    def _last_words(self) -> str:
        try:
            return last_words(self._process.wait(END_LIMIT))
        except subprocess.TimeoutExpired:
            return "the worker process broke its connection off"


class _Bytes(ReceivedBytes):
    """The bytes of a file from a process. After them comes a result, if they are complete."""

    def __init__(self, process: CallProcess) -> None:
        super().__init__(process.connection)
        self._process = process

    def read(self, size: int, /) -> bytes:
        """See ``Readable``. Raises StorageError and TimeoutError."""
        over = self.ended
        with self._process.talk():
            data = super().read(size)
        if self.ended and not over:
            self._process.result()
        return data


class CallProcesses:
    """The calls of one mover. A free process is reused. An unused one ends by itself.

    Every call blocks. It raises StorageError, and TimeoutError if a process does not answer and is killed.
    """

    def __init__(self, mover: str) -> None:
        self._mover = mover
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(MOST_CALLS)
        self._processes: list[CallProcess] = []
        self._ending: list[CallProcess] = []
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """Return the ids of running processes."""
        with self._lock:
            self._forget_ended()
            return [process.pid for process in (*self._processes, *self._ending)]

    def call(self, seconds: float, method: str, storage: Storage, *arguments: object) -> Any:
        """Call a method of the mover with a time limit in s."""
        with self._process_for(CallOrder(method, storage, arguments), seconds) as process:
            return process.result()

    @contextmanager
    def open(self, storage: Storage, path: str) -> Iterator[Readable]:
        """Open a file. Reading it raises the same errors as every call."""
        with self._process_for(CallOrder("open", storage, (path,)), SILENCE) as process:
            process.result(last=False)
            yield _Bytes(process)

    def store(self, storage: Storage, path: str, stream: Readable, size: int) -> Delivered:
        """Write a file. Also raises the exceptions of ``stream``."""
        with self._process_for(CallOrder("store", storage, (path, size)), SILENCE) as process:
            failure: Exception | None = None
            chunk = b"?"
            while chunk:
                try:
                    chunk = stream.read(MESSAGE)
                except Exception as error:
                    # End it like one that is too short, so that the storage deletes its part.
                    failure, chunk = error, b""
                process.send(chunk)
            try:
                delivered: Delivered = process.result()
            except StorageError:
                if failure is None:
                    raise
            if failure:
                raise failure
            return delivered

    def close(self) -> None:
        """End every process immediately."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()

    @contextmanager
    def _process_for(self, order: CallOrder, seconds: float) -> Iterator[CallProcess]:
        """Give a process one call at a time. A process that is not free afterwards is killed."""
        if not self._room.acquire(timeout=seconds):
            raise TimeoutError(f"{MOST_CALLS} calls are under way, and none ended within {seconds:g} s")
        try:
            process = self._handed(order, seconds)
            try:
                yield process
            finally:
                self._put_back(process)
        finally:
            self._room.release()

    def _handed(self, order: CallOrder, seconds: float) -> CallProcess:
        """Hand a call to a free process, or to a new one if the free one has just ended."""
        while True:
            with self._lock:
                self._forget_ended()
                if self._closed:
                    raise StorageError("the mover is closed")
                if len(self._ending) >= MOST_ENDING:
                    raise StorageError(f"{len(self._ending)} processes hang in storages and cannot be ended")
                idle = next(
                    (candidate for candidate in reversed(self._processes) if not candidate.held), None
                )
                process = idle or self._started()
                process.held = True
            try:
                process.take(order, seconds)
            except Exception:
                self._put_back(process)
                if idle is None:
                    raise
            else:
                return process

    def _started(self) -> CallProcess:
        process = CallProcess(self._mover)
        self._processes.append(process)
        # Wait for its end whenever it comes: until then the system keeps its entry.
        threading.Thread(target=self._wait_for, args=(process,), daemon=True).start()
        return process

    def _wait_for(self, process: CallProcess) -> None:
        process.wait()
        with self._lock:
            self._forget_ended()

    def _put_back(self, process: CallProcess) -> None:
        with self._lock:
            process.held = False
            if not process.free or self._closed:
                process.kill()
                self._processes.remove(process)
                self._ending.append(process)

    def _forget_ended(self) -> None:
        """Forget processes that are gone. One killed inside a kernel call stays for some time."""
        for processes in (self._processes, self._ending):
            for process in [candidate for candidate in processes if not candidate.held and candidate.ended]:
                process.connection.close()
                processes.remove(process)
