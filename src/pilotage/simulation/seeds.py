"""Seeds of worlds in a simulation: each follows from who asks for it, and when."""

from hashlib import blake2b

from .clock import VirtualClock


class Seeds:
    """Makes the seeds of a run's worlds, of its own seed.

    A seed is that of a step's n-th pass in a tick, however many passes others took before: so a pass that
    would have changed nothing may be left out, and the run stays the same.
    """

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self._seed = seed
        self._clock = clock
        self._who = ""
        self._since = 0.0
        self._numbers: dict[str, int] = {}

    def of(self, who: str) -> None:
        """Make the next seeds for a step, or for the calls of pilots."""
        self._who = who

    def __call__(self) -> int:
        """The next seed."""
        now = self._clock()
        if now != self._since:
            self._since = now
            self._numbers.clear()
        number = self._numbers[self._who] = self._numbers.get(self._who, 0) + 1
        text = f"{self._seed} {self._who} {now} {number}"
        return int.from_bytes(blake2b(text.encode(), digest_size=4).digest())
