"""Ask storages for their free space (B18), without waiting for their answers."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from functools import partial
from math import inf

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


class Spaces:
    """Answers of storages, until a pass has recorded them. ``on_news`` is called when there is one to read.

    Each storage is a separate place for the workers, so that one that hangs delays nothing else. A server
    without a mover for a storage reports nothing: another may have one.
    """

    def __init__(
        self, movers: Movers, workers: WorkersPort, clock: Clock, on_news: Callable[[], None]
    ) -> None:
        self._movers = movers
        self._workers = workers
        self._clock = clock
        self._on_news = on_news
        self._lock = threading.Lock()
        self._asking: set[_Key] = set()
        self._asked: dict[_Key, float] = {}
        self._news: dict[_Key, SpaceSighting] = {}

    def news(self) -> tuple[SpaceSighting, ...]:
        """Return unrecorded answers, by storage."""
        with self._lock:
            return tuple(self._news[key] for key in sorted(self._news))

    def forget(self, news: Collection[SpaceSighting]) -> None:
        """Drop answers that a commit has processed."""
        with self._lock:
            for one in news:
                if self._news.get((one.storage, one.url)) == one:
                    del self._news[one.storage, one.url]

    def ask(self, storages: Iterable[Storage], period: float) -> None:
        """Ask storages in order, as many as allowed at once, each once per ``period`` s."""
        for storage in storages:
            key = (storage.name, storage.url)
            now = self._clock()
            with self._lock:
                if len(self._asking) >= AT_ONCE:
                    return
                if key in self._asking or 0 <= now - self._asked.get(key, -inf) < period:
                    continue
                self._asked[key] = now
                self._asking.add(key)
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
            with self._lock:
                self._asking.discard(key)
            return
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
        told = SpaceSighting(
            storage=key[0],
            url=key[1],
            time=self._clock(),
            free=space.free if space else None,
            total=space.total if space else None,
            problem="" if space else one_line(str(error) or repr(error)) if error else NOT_TOLD,
        )
        with self._lock:
            self._asking.discard(key)
            self._news[key] = told
        self._on_news()
