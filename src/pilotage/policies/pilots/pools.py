"""Choose submit pools for the pilots of a task queue (P5)."""

from collections.abc import Sequence

from numpy.random import Generator

from pilotage.model.documents.world import World
from pilotage.model.records.work import Requirements


class Pools:
    """The room of submit pools in one pass. One submission takes all pilots that a pool has for a server."""

    def __init__(self, world: World, random: Generator) -> None:
        director = world.federation.director
        under_way = {report.pool: report.submissions for report in world.pool_reports}
        self._default = director.default_submit_pools
        self._room = {
            name: pool.total_threads_in_pool - under_way.get(name, 0)
            for name, pool in director.submit_pools.items()
        }
        self._random = random
        self._begun: set[tuple[str, str, str]] = set()

    def choose(self, requirements: Requirements, queue: str, server: str) -> str:
        """Return a pool with room for a server's pilots, tried in random order; empty if all are full."""
        for name in self._shuffled(requirements.submit_pools or self._default):
            submission = (name, queue, server)
            # The submission has its place in the pool already, and takes any number of pilots.
            if submission in self._begun:
                return name
            if self._room.get(name, 0) > 0:
                self._room[name] -= 1
                self._begun.add(submission)
                return name
        return ""

    def _shuffled(self, names: Sequence[str]) -> Sequence[str]:
        if len(names) == 1:
            return names
        return [names[at] for at in self._random.permutation(len(names))]
