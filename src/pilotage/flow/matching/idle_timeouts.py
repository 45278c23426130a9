"""How long pilots without work stay, as cached by one process (E5)."""

from pilotage.flow.cache import Cache
from pilotage.model.records.federation import Federation, Queue
from pilotage.model.records.unified_queues import pilot_limits
from pilotage.policies.pilots.batch_waits import expected_waits, is_in_the_way, pace, stay
from pilotage.policies.pilots.task_queues import starts_pilots
from pilotage.store import Store

WAITS_KNOWN_FOR = 60.0
"""Seconds for which waits in batch systems are cached: reading them looks at every live pilot."""


class IdleTimeouts:
    """Caches how long pilots wait in batch systems. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._live = Cache(lambda _: store.heartbeats.live()[0])
        self._waits = Cache(lambda time: expected_waits(store.queries.live_pilots(), time), WAITS_KNOWN_FOR)

    def pace(self, federation: Federation, time: float) -> float:
        """Return the s between two heartbeats of a pilot, at a time in s since 1970."""
        return pace(federation.loops, self._live.at(time))

    def seconds(
        self, federation: Federation, queue: Queue | None, time: float, unfit_jobs: int = 0, pilot: int = 0
    ) -> float:
        """Return the s that a pilot of a queue stays without work, at a time in s since 1970.

        It leaves immediately if its place is needed for jobs that the ``pilot`` could never run: the
        ``unfit_jobs`` of its queue, or jobs of queues that share a limit with its queue (B2).
        """
        loops = federation.loops
        if queue is not None and self._is_in_the_way(federation, queue, unfit_jobs, f"{pilot} {time}"):
            return 0.0
        if queue is None or loops.pilot_idle_most <= loops.pilot_idle:
            return loops.pilot_idle
        return stay(loops, queue, self._waits.at(time).get(queue.name, 0.0))

    def _is_in_the_way(self, federation: Federation, queue: Queue, unfit_jobs: int, draw: str) -> bool:
        if not starts_pilots(queue) or not (unfit_jobs or queue.parent):
            return False
        heartbeats = self._store.heartbeats
        for limit in pilot_limits(federation)[queue.name]:
            siblings = [name for name in limit.queues if name != queue.name]
            waiting = unfit_jobs + (heartbeats.waiting(siblings) if siblings else 0)
            if waiting and is_in_the_way(limit.pilots, *heartbeats.live(limit.queues), waiting, draw):
                return True
        return False
