"""The pilots that each task queue asks for, before the room is shared."""

from dataclasses import dataclass

import numpy as np

from .apportionment import Floats, Ints


@dataclass(frozen=True, slots=True)
class Wants:
    """Columns over task queues, and how many pilots may be made in all; none: as many as are asked for.

    ``means`` are what room is shared by (P4). ``targets`` are asked for, but no more than ``bounds`` less the
    pilots that are there for it already, ``waiting``.
    """

    means: Floats
    targets: Ints
    bounds: Ints
    waiting: Ints
    total: int | None = None

    @property
    def asked(self) -> Ints:
        """Pilots asked for."""
        asked: Ints = np.maximum(0, np.minimum(self.targets, self.bounds - self.waiting))
        return asked
