"""Virtual links: all flows on a link share its throughput evenly."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from pilotage.simulation.clock import VirtualClock

Ends = tuple[str, str]
"""The two sites of a link, from and to."""


@dataclass(slots=True)
class _Link:
    """A link's flows, ordered by the service in MB that each has received when it ends.

    All flows have received the same service at any time, so one number, ``served``, describes them all.
    """

    throughput: float
    served: float = 0.0
    at: float = 0.0
    flows: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    version: int = 0

    @property
    def busy(self) -> int:
        return len(self.flows) - len(self.gone)

    def pass_to(self, now: float) -> None:
        if self.busy:
            self.served += (now - self.at) * self.throughput / self.busy
        self.at = now


class FairLinks:
    """The links of a federation on a virtual clock."""

    def __init__(self, clock: VirtualClock, throughput: Callable[[Ends], float]) -> None:
        self._clock = clock
        self._throughput = throughput
        self._links: dict[Ends, _Link] = {}
        self._numbers = count()
        self._under_way: dict[int, _Link] = {}

    def begin(self, ends: Ends, megabytes: float, arrive: Callable[[], None]) -> int:
        """Start a flow over a link, and call ``arrive`` at its end. Return a number for ``cancel``."""
        if ends not in self._links:
            self._links[ends] = _Link(self._throughput(ends), at=self._clock())
        link = self._links[ends]
        link.pass_to(self._clock())
        number = next(self._numbers)
        self._under_way[number] = link
        heapq.heappush(link.flows, (link.served + megabytes, number, arrive))
        self._expect(link)
        return number

    def cancel(self, number: int) -> None:
        """Stop a flow. A flow that has arrived is unaffected."""
        link = self._under_way.pop(number, None)
        if link is not None:
            link.pass_to(self._clock())
            link.gone.add(number)
            self._expect(link)

    def _expect(self, link: _Link) -> None:
        """Schedule the next arrival. Any change of the link before then replaces it."""
        while link.flows and link.flows[0][1] in link.gone:
            link.gone.discard(heapq.heappop(link.flows)[1])
        link.version += 1
        if link.flows:
            version = link.version
            rest = max(0.0, link.flows[0][0] - link.served)
            self._clock.after(rest * link.busy / link.throughput, lambda: self._arrived(link, version))

    def _arrived(self, link: _Link, version: int) -> None:
        if version != link.version:
            return
        end, number, arrive = heapq.heappop(link.flows)
        link.served, link.at = end, self._clock()
        del self._under_way[number]
        self._expect(link)
        arrive()
