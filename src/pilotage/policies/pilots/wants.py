"""The pilots that each task queue requests, before the room is shared."""

from dataclasses import dataclass

import numpy as np

from pilotage.policies.pilots.apportionment import Floats, Ints


@dataclass(frozen=True, slots=True)
class Wants:
    """Columns over task queues, and the most pilots in all; None means as many as requested.

    ``means`` are the weights for sharing room (P4). ``targets`` are the requests. They are limited by
    ``bounds`` minus ``waiting``, the pilots that are there for it already.
    """

    means: Floats
    targets: Ints
    bounds: Ints
    waiting: Ints
    total: int | None = None

    @property
    def asked(self) -> Ints:
        """Return the requested pilots."""
        asked: Ints = np.maximum(0, np.minimum(self.targets, self.bounds - self.waiting))
        return asked
