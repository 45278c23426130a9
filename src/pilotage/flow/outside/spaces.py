"""Ask storages for their free space (B18), without waiting for their answers."""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from math import inf
from operator import attrgetter

from pilotage.flow.outside.answers import OutsideAnswers
from pilotage.flow.outside.workers import WorkersPort
from pilotage.model.circuit_breakers.storages import one_line
from pilotage.model.records.federation import Storage
from pilotage.model.records.observations import SpaceSighting
from pilotage.ports import Clock
from pilotage.ports.moving import Movers, Space, SpaceTeller

log = logging.getLogger(__name__)

TIME_LIMIT = 35.0
"""Time limit in s of an answer, including the start of the asking process."""

AT_ONCE = 8
"""Most storages asked at the same time: hanging ones must leave processes for other calls."""

NOT_TOLD = "it tells no free space"

_Key = tuple[str, str]


class Spaces(OutsideAnswers[SpaceSighting]):
    """Answers of storages, until a pass has recorded them.

    Each storage is a separate place for the workers, so that one that hangs delays nothing else. A server
    without a mover for a storage reports nothing: another may have one.
    """

    def __init__(
        self, movers: Movers, workers: WorkersPort, clock: Clock, on_news: Callable[[], None]
    ) -> None:
        super().__init__(attrgetter("storage", "url"), on_news)
        self._movers = movers
        self._workers = workers
        self._clock = clock
        self._asked: dict[_Key, float] = {}

    def ask(self, storages: Iterable[Storage], period: float) -> None:
        """Ask storages in order, up to ``AT_ONCE`` in parallel, each once per ``period`` s."""
        for storage in storages:
            key = (storage.name, storage.url)
            now = self._clock()
            with self._lock:
                if len(self._pending) >= AT_ONCE:
                    return
                if key in self._pending or 0 <= now - self._asked.get(key, -inf) < period:
                    continue
                self._asked[key] = now
            self._ask(storage, key)

    def _ask(self, storage: Storage, key: _Key) -> None:
        try:
            mover = self._movers.for_storage(storage)
        except LookupError as error:
            log.info(
                "%s is not asked for its free space from here: %s",
                storage.name,
                error,
                extra={"storage": storage.name},
            )
            return
        self.begin([key])
        call = partial(mover.space, storage) if isinstance(mover, SpaceTeller) else lambda: None
        future = self._workers.call(f"space of {storage.name}", call, TIME_LIMIT)
        future.add_done_callback(partial(self._done, key))

    def _done(self, key: _Key, future: "Future[Space | None]") -> None:
        error = future.exception()
        space = future.result() if error is None else None
        if error is not None:
            fault = error or repr(error)
            log.warning(
                "storage %s does not tell its free space: %s", key[0], fault, extra={"storage": key[0]}
            )
        answer = SpaceSighting(
            storage=key[0],
            url=key[1],
            time=self._clock(),
            free=space.free if space else None,
            total=space.total if space else None,
            problem="" if space else one_line(str(error) or repr(error)) if error else NOT_TOLD,
        )
        self.add([answer])
