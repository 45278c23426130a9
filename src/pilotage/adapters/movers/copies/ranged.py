"""Read large files with several concurrent requests if that is faster. Their bytes come in order."""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, Self, runtime_checkable

from pilotage.adapters.movers.copies.checksums import CHUNK
from pilotage.adapters.movers.storages.backend import Backend, offers
from pilotage.ports.moving import Readable, StorageError

LARGE = 64 << 20
"""Least remaining bytes for which more than one request may pay off."""

SAMPLE = 16 << 20
"""Bytes of the first request. Its rate decides whether more requests start."""

FAST = 400e6
"""Rate of one request in bytes per second above which no more are tried: processors are the limit then."""

BLOCK = 4 << 20
"""Bytes per request if there are several. Each of them has twice as many in memory."""

FEW, MOST = 4, 8
"""Concurrent requests to try first, and the most for one file."""

LOST = FEW * BLOCK
"""Bytes that a request gives while the next waits for its answer. Beyond it, several would gain nothing."""

SPARE = 16
"""Further concurrent requests for all files of a process, besides each file's first."""

PAYS = 1.25
"""Factor by which more concurrent requests must be faster than fewer."""

MEASURED = 4
"""Blocks per request before the rate is measured, over the second half of them."""

AskRange = Callable[[int, int], AbstractContextManager[Readable]]
"""Opens a byte range of a file, of the same version as all others."""


@runtime_checkable
class SeekableBackend(Backend, Protocol):
    """A backend that reads files from the middle."""

    def read_from(self, path: str, start: int) -> AbstractContextManager[Readable]:
        """Open a file to read it from the existing byte ``start``. Raises like ``read``."""


@runtime_checkable
class RangedBackend(SeekableBackend, Protocol):
    """A backend that reads a large file with several concurrent requests."""

    def read_ranges(self, path: str, start: int, size: int) -> AbstractContextManager[Readable]:
        """Open a file that should have ``size`` bytes, from the byte ``start``. Raises like ``read``."""


def whole(source: Backend, path: str, size: int) -> AbstractContextManager[Readable]:
    """Open a file that should have ``size`` bytes."""
    if size >= LARGE and offers(source, RangedBackend):
        return source.read_ranges(path, 0, size)
    return source.read(path)


def rest(source: SeekableBackend, path: str, start: int, size: int) -> AbstractContextManager[Readable]:
    """Open a file that should have ``size`` bytes, and read it from the byte ``start``."""
    if size - start >= LARGE and offers(source, RangedBackend):
        return source.read_ranges(path, start, size)
    return source.read_from(path, start)


def sample_end(begin: int, end: int) -> int:
    """Return the end of a file's first request."""
    return min(begin + SAMPLE, end)


class _Spare:
    """Further concurrent requests for files of this process. The limit bounds their total memory."""

    def __init__(self, count: int) -> None:
        self._available = count
        self._lock = threading.Lock()

    def take(self, limit: int) -> int:
        """Take as many as are available, up to ``limit``."""
        with self._lock:
            count = min(limit, self._available)
            self._available -= count
            return count

    def give_back(self, number: int) -> None:
        """Return them for others."""
        with self._lock:
            self._available += number


spare = _Spare(SPARE)
"""This process's further requests. Uploads with several concurrent parts use them too."""


class RangedStream:
    """The bytes of a file from ``begin`` up to ``end`` as a stream.

    ``first`` gives a sample of them. It took ``answered`` seconds to arrive. If the sample was slow, as over
    a long distance, several concurrent requests follow, and then more as long as they are faster. Otherwise
    one request gives the rest. The same holds if a server takes longer to answer than several requests would
    gain.
    """

    def __init__(
        self, first: Readable, ask: AskRange, begin: int, end: int, answered: float, *, limit: int = MOST
    ) -> None:
        self._part, self._ask, self._end, self._limit = first, ask, end, limit
        self._open = ExitStack()
        self._tried, self._answered = limit < FEW, answered
        self._offset = self._begin = begin
        self._part_end = min(begin + SAMPLE, end)
        self._begun = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""
        while not (data := self._part.read(size)):
            if self._offset >= self._end or self._offset < self._part_end:
                return b""  # the caller counts the bytes, and notices a short answer
            self._go_on()
        self._offset += len(data)
        return data

    def _go_on(self) -> None:
        """Continue after the sample, or after several requests that did not pay off."""
        rate = (self._offset - self._begin) / max(time.monotonic() - self._begun, 1e-6)
        self._open.close()
        slow = rate < FAST and rate * self._answered < LOST
        if slow and not self._tried and self._end - self._offset >= FEW * MEASURED * BLOCK:
            self._tried = True
            if number := spare.take(FEW):
                several = _Several(self._ask, self._offset, self._end, number, self._limit, rate)
                self._part, self._part_end = several, self._offset
                self._open.callback(several.close)
                return
        self._part, self._part_end = self._open.enter_context(self._ask(self._offset, self._end)), self._end


class _Block:
    """Bytes of a file that a thread reads."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.chunks: deque[bytes] = deque()
        self.error: Exception | None = None
        self.ended = False


class _Several:
    """Threads that each read the next block of a file, until the file ends or they gain nothing."""

    def __init__(self, ask: AskRange, begin: int, end: int, number: int, limit: int, rate: float) -> None:
        self._ask, self._next, self._end = ask, begin, end
        self._limit, self._rate = limit, rate
        self._changed = threading.Condition()
        self._blocks: deque[_Block] = deque()
        self._taken: deque[bytes] = deque()
        self._closed = self._settled = False
        self._number = self._running = 0
        self._done, self._since = 0, time.monotonic()
        self._start(number)

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end, or when one request is as good."""
        while not self._taken:
            with self._changed:
                self._changed.wait_for(lambda: self._next >= self._end or self._blocks)
                if not self._blocks:
                    return b""
                self._changed.wait_for(lambda: self._blocks[0].ended)
                block = self._blocks.popleft()
                self._changed.notify_all()
            if block.error is not None:
                raise block.error
            self._taken = block.chunks
            self._measure()
        data = self._taken.popleft()
        if len(data) > size:
            self._taken.appendleft(data[size:])
        return data[:size]

    def close(self) -> None:
        """Stop the threads, each at its next bytes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _start(self, number: int) -> None:
        """Start that many more threads, each with its own request, all of them reserved."""
        with self._changed:
            self._number += number
            self._running += number
        for _ in range(number):
            threading.Thread(target=self._work, name="range", daemon=True).start()

    def _measure(self) -> None:
        """After some blocks, measure the gain of this many requests. Then try more, or go back to one."""
        self._done += 1
        if self._settled:
            return
        if self._done == MEASURED * self._number // 2:
            self._since = time.monotonic()
        if self._done < MEASURED * self._number:
            return
        rate = self._done / 2 * BLOCK / max(time.monotonic() - self._since, 1e-6)
        pays, self._done = rate >= PAYS * self._rate, 0
        more = spare.take(min(self._number, self._limit - self._number)) if pays else 0
        self._settled = not more
        self._rate = rate
        if more:
            self._start(more)
        elif not pays:
            self._give_up()

    def _give_up(self) -> None:
        """Stop using a number of requests that did not pay off: use one, or as many as before."""
        with self._changed:
            if self._number > FEW:
                self._number = FEW
            else:
                self._end = self._next
            self._changed.notify_all()

    def _work(self) -> None:
        try:
            while (block := self._next_block()) is not None:
                try:
                    self._fill(block)
                except Exception as error:  # the reader of the file raises it
                    block.error = error
                with self._changed:
                    block.ended = True
                    self._changed.notify_all()
        finally:
            spare.give_back(1)

    def _next_block(self) -> _Block | None:
        """Return the next block when there is room for it; None if this thread is not needed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._over() or self._running > self._number or len(self._blocks) < 2 * self._number
            )
            if self._over() or self._running > self._number:
                self._running -= 1
                return None
            block = _Block(self._next, min(self._next + BLOCK, self._end))
            self._next = block.end
            self._blocks.append(block)
            self._changed.notify_all()
            return block

    def _over(self) -> bool:
        return self._closed or self._next >= self._end

    def _fill(self, block: _Block) -> None:
        missing = block.end - block.begin
        with self._ask(block.begin, block.end) as stream:
            while missing and not self._closed and (data := stream.read(min(CHUNK, missing))):
                block.chunks.append(data)
                missing -= len(data)
        if missing and not self._closed:
            raise StorageError(
                f"the answer ended {missing} bytes before the {block.end}th that was asked for"
            )
