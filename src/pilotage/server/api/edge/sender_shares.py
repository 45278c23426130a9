"""What the requests of one sender may take of the server: seconds of computing, and bytes in memory.

A sender is a person, or all pilots of a queue: as many shares as pilots would be as many as a site likes.
"""

import asyncio
from collections import deque

from cachetools import LRUCache

from pilotage.model.values.identity import Credential
from pilotage.request_budget import RequestBudget
from pilotage.server.api.edge.measured_routes import SMALL_BODY

SECONDS_SHARE = 0.5
"""Seconds of computing that a sender's requests may take in each second, in the long run."""

SECONDS_AHEAD = 10.0
"""Seconds of computing that they may take before any of them waits."""

LEAST_SECONDS = 0.001
"""Seconds that each request takes of the event loop and the framework, where they are not measured."""

LONGEST_WAIT = 60.0
"""Seconds for which a request waits for its turn."""

LARGEST_BODY = 16 * 1024 * 1024
"""Most bytes of a request with many records: some ten thousand tasks, or reports."""

MOST_BYTES = LARGEST_BODY + LARGEST_BODY // 4
"""Most bytes of all bodies of a sender that arrive or are worked on. Threads that work on several large ones
take turns with everybody else's: one at a time is as fast for its sender."""

PARSED = 8
"""How often each byte counts, up to the largest body: what is parsed takes some times its text."""

BYTES_TIMEOUT = 60.0
"""Seconds for which a body waits until others of its sender give their bytes back."""

MOST_WAITING = 200
"""Most requests of one sender that wait for room. Further ones are refused."""

MOST_SENDERS = 10_000
"""How many senders' seconds are remembered. The senders that were silent for longest go first."""


def sender_of(caller: Credential | None) -> str:
    """Return the caller who pays for a request; empty for unknown callers, whom the routes refuse."""
    if caller is None:
        return ""
    return f"pilots of {caller.queue}" if caller.pilot else caller.identity.key


class NoTurn(Exception):
    """A sender's requests computed for so long that a further one would wait too long. ``wait`` is in s."""

    def __init__(self, wait: float) -> None:
        self.wait = wait
        super().__init__(f"your requests took much of the server's time; ask again in {wait:.0f} s")


class _Account:
    """The seconds that a sender's requests took, less the seconds that its share has paid back since."""

    def __init__(self) -> None:
        self._debt = 0.0
        self._at = 0.0

    def take(self, seconds: float) -> None:
        """Add seconds that a request took."""
        now = asyncio.get_running_loop().time()
        self._debt = max(0.0, self._debt - (now - self._at) * SECONDS_SHARE) + seconds
        self._at = now

    def wait(self) -> float:
        """Return for how many seconds a further request waits."""
        self.take(0.0)
        return max(0.0, self._debt - SECONDS_AHEAD) / SECONDS_SHARE


class ComputingTurn:
    """The turn of one request, which takes its seconds from its sender's share."""

    def __init__(self, account: _Account, budget: RequestBudget) -> None:
        self._account = account
        self._budget = budget
        self._taken = 0.0

    async def wait(self) -> None:
        """Wait for the turn. Raises ``NoTurn``."""
        if wait := self._account.wait():
            if wait > LONGEST_WAIT:
                raise NoTurn(wait)
            await asyncio.sleep(wait)

    def settle(self) -> None:
        """Take what the request has computed until now."""
        spent = LEAST_SECONDS + self._budget.spent
        self._account.take(spent - self._taken)
        self._taken = spent


class ComputingShares:
    """The seconds of all senders."""

    def __init__(self) -> None:
        self._accounts: LRUCache[str, _Account] = LRUCache(MOST_SENDERS)

    def turn(self, sender: str, budget: RequestBudget) -> ComputingTurn:
        """Return the turn of a request with this budget."""
        if (account := self._accounts.get(sender)) is None:
            account = self._accounts[sender] = _Account()
        return ComputingTurn(account, budget)


class NoSpace(Exception):
    """Too many bytes of a sender's requests are in memory."""

    def __init__(self) -> None:
        super().__init__(f"requests of yours hold {MOST_BYTES} bytes already; send fewer at once")


class _Space:
    """The bytes of one sender, and those who wait for some."""

    def __init__(self) -> None:
        self.held = 0
        self.waiting: deque[tuple[int, asyncio.Future[None]]] = deque()


class BodySpaces:
    """The bytes of all senders' bodies in memory."""

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}

    async def take(self, sender: str, size: int) -> None:
        """Wait until there is space for a whole body: bodies in parts would wait for each other for ever.

        Raises ``NoSpace``.
        """
        space = self._spaces.setdefault(sender, _Space())
        size = _counted(size)
        if (not space.waiting or size <= PARSED * SMALL_BODY) and space.held + size <= MOST_BYTES:
            space.held += size
            return
        if len(space.waiting) >= MOST_WAITING:
            raise NoSpace
        arrival = asyncio.get_running_loop().create_future()
        space.waiting.append((size, arrival))
        try:
            async with asyncio.timeout(BYTES_TIMEOUT):
                await arrival
        except BaseException as error:
            if arrival.cancelled():
                space.waiting.remove((size, arrival))
                self._free(sender, 0)  # a smaller one behind it may fit
            else:
                self._free(sender, size)
            if isinstance(error, TimeoutError):
                raise NoSpace from None
            raise

    def give_back(self, sender: str, size: int) -> None:
        """Give the bytes of a body back, and let those in who waited for them."""
        self._free(sender, _counted(size))

    def _free(self, sender: str, size: int) -> None:
        space = self._spaces[sender]
        space.held -= size
        while space.waiting and space.held + space.waiting[0][0] <= MOST_BYTES:
            next_size, arrival = space.waiting.popleft()
            space.held += next_size
            arrival.set_result(None)
        if not space.held and not space.waiting:
            self._spaces.pop(sender)


def _counted(size: int) -> int:
    return min(PARSED * size, LARGEST_BODY)
