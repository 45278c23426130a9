"""Sole loops: work that one server at a time does, once a period, and that another takes over.

Three of them are here: they delete old events, make events of changes of circuit breakers, and record what
shares use.
"""

import logging
import threading
import time
from collections.abc import Callable

from pilotage.flow.background import BackgroundService
from pilotage.flow.loops.isolation import error_line
from pilotage.flow.loops.work_samples import WorkRecorder
from pilotage.model.records.servers import LoopPass
from pilotage.ports.presence import Presence
from pilotage.store import LeaseLost, NoFederation, ShareSample, Store, share_uses

log = logging.getLogger(__name__)

Pause = Callable[[float], bool]
"""Waits for some s. Returns True if the work must end."""

AGAIN = 60.0
"""Most seconds until failed work is tried again."""

WITHOUT_LEASE = 1.0
"""Seconds until a server with an ended lease looks again."""


class SoleLoop(BackgroundService):
    """A thread that does some work every ``period`` s, unless another server does it.

    ``work`` calls the pause that it gets between its parts: there others can write, and the work may end. It
    has a lease with the loop's name. After another server is gone, call ``wake`` to take over its work.
    """

    def __init__(
        self, store: Store, presence: Presence, name: str, period: float, work: Callable[[Pause], None]
    ) -> None:
        super().__init__({f"loop-{name}": self._loop})
        self.name = name
        self.last: LoopPass | None = None
        self._store, self._presence = store, presence
        self._period, self._work = period, work
        self._woken = threading.Event()

    def wake(self) -> None:
        """Check now whether the work is due: a server is gone."""
        self._woken.set()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                seconds = self._store.last_done(self.name) + self._period - self._store.clock()
                if seconds <= 0:
                    seconds = self._do()
            except NoFederation:
                seconds = self._period
            except Exception as error:
                seconds = min(self._period, AGAIN)
                log.exception("loop %s failed; it is tried again in %g s", self.name, seconds)
                self.last = LoopPass(ended=self._store.clock(), seconds=0.0, error=error_line(error))
            self._woken.wait(seconds)

    def _do(self) -> float:
        """Do the work unless another server does. Return the s until the next look."""
        leases, server = self._store.leases, self._presence.name
        if self._presence.term is None:
            return min(self._period, WITHOUT_LEASE)
        if not leases.take(
            self.name, server, self._store.clock(), lambda name: bool(self._presence.gone([name]))
        ):
            return self._period
        begun = time.monotonic()
        try:
            self._work(self._stopping.wait)
            if not self._stopping.is_set():
                self._store.note_done(self.name)
        except LeaseLost as lost:
            log.warning("loop %s: %s", self.name, lost)
            return self._period
        finally:
            leases.give_back(self.name, server)
        self.last = LoopPass(ended=self._store.clock(), seconds=time.monotonic() - begun)
        return self._period


FORGET_EVENTS = "forget-events"
"""The name of the loop."""

FORGET_PERIOD = 600.0
"""Seconds between two searches for old events."""

BATCH_PAUSE = 0.5
"""Seconds between two batches, so that others write in between."""


KEPT_NOTIFICATIONS = 30 * 86400.0
"""Seconds for which notifications that were sent, or given up, are kept."""


def forgetting_events(
    store: Store, presence: Presence, age: float, audit_age: float, *, archives: bool
) -> SoleLoop:
    """Return the loop that deletes events after ``age`` seconds, old notifications and records of the audit.

    A server that ``archives`` leaves notifications and the audit to its archive.
    """

    def work(pause: Pause) -> None:
        while store.event_retention.forget(store.clock() - age):
            if pause(BATCH_PAUSE):
                return
        while not archives and store.event_retention.forget_notifications(store.clock() - KEPT_NOTIFICATIONS):
            if pause(BATCH_PAUSE):
                return
        while not archives and store.audit.forget(store.clock() - audit_age):
            if pause(BATCH_PAUSE):
                return

    return SoleLoop(store, presence, FORGET_EVENTS, FORGET_PERIOD, work)


NOTE_BREAKERS = "note-breakers"
"""The name of the loop, and who its events are by."""

NOTE_PERIOD = 10.0
"""Seconds between two looks. An operator who lifts a breaker makes its event at once."""


def noting_breakers(store: Store, presence: Presence, note: Callable[[str], None]) -> SoleLoop:
    """Return the loop that makes events of the changes of circuit breakers: ``note`` looks for them."""

    def work(_: Pause) -> None:
        note(NOTE_BREAKERS)

    return SoleLoop(store, presence, NOTE_BREAKERS, NOTE_PERIOD, work)


RECORD_USE = "record-use"
"""The name of the loop."""

RECORD_PERIOD = 300.0
"""Seconds between two samples. Those of an hour are added up."""

MOST_SHARES = 50
"""Most shares of a sample, those with most running jobs."""


def recording_use(store: Store, presence: Presence) -> SoleLoop:
    """Return the loop that adds samples of work and of each share, and deletes old ones, and old failures."""
    recorder = WorkRecorder(store)

    def work(_: Pause) -> None:
        now, uses = store.clock(), share_uses(store.queries.shares())
        if any(use.running for use in uses):
            sample = [
                ShareSample(share=use.name, running=use.running, used=use.used, target=use.target)
                for use in uses
                if use.running or use.target
            ]
            store.past.add_sample(sample[:MOST_SHARES], now)
        store.past.follow_use(store.unrestricted_federation(), now)
        recorder.record(now)
        store.past.forget(now)

    return SoleLoop(store, presence, RECORD_USE, RECORD_PERIOD, work)
