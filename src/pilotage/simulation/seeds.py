"""Seeds of worlds in a simulation. Each follows from who asks for it, and when."""

from hashlib import blake2b

from pilotage.simulation.clock import VirtualClock


class Seeds:
    """Derives the seeds of a run's worlds from the run's own seed.

    A seed belongs to the n-th pass of a step in a tick, however many passes other steps took before. So the
    simulation may skip a pass that would change nothing, without changing the run.
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
        """Return the next seed."""
        now = self._clock()
        if now != self._since:
            self._since = now
            self._numbers.clear()
        number = self._numbers[self._who] = self._numbers.get(self._who, 0) + 1
        text = f"{self._seed} {self._who} {now} {number}"
        return int.from_bytes(blake2b(text.encode(), digest_size=4).digest())
