"""How often the client looks whether something has changed."""

import time
from dataclasses import dataclass, field

FIRST = 0.2
"""Seconds between the first two looks."""

LONGEST = 2.0
"""Most seconds between two looks at a few tasks."""

EACH = 0.02
"""Further seconds for each task, so that many tasks cost the server as little as few."""


def sleep(seconds: float) -> None:
    """Sleep."""
    time.sleep(seconds)


async def async_sleep(seconds: float) -> None:
    """Sleep in an event loop."""
    # Loading it takes longer than loading the client, and synchronous programs need none of it.
    import asyncio

    await asyncio.sleep(seconds)


@dataclass
class Pace:
    """Times between looks: short at first, longer as nothing happens, until a time-out in s."""

    timeout: float | None = None
    _next: float = field(default_factory=lambda: FIRST)
    _begun: float = field(default_factory=time.monotonic)

    @property
    def until(self) -> float | None:
        """Return when the time is over, on the monotonic clock."""
        return None if self.timeout is None else self._begun + self.timeout

    @property
    def is_over(self) -> bool:
        """Return whether the time is over."""
        return self.timeout is not None and time.monotonic() - self._begun >= self.timeout

    def pause(self, subjects: int, has_changed: bool) -> float:
        """Return the seconds until the next look at so many subjects."""
        self._next = FIRST if has_changed else min(LONGEST, self._next * 1.5)
        seconds = self._next + EACH * subjects
        if self.timeout is None:
            return seconds
        return max(0.0, min(seconds, self.timeout - (time.monotonic() - self._begun)))
