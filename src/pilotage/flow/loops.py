"""The loops: each takes one step again and again, alone or beside the others."""

import logging
import threading
from collections.abc import Callable, Mapping

from pilotage.store import NoFederation, Store

from .step import Pass
from .wakeups import Bells

log = logging.getLogger(__name__)

SHORTEST_PAUSE = 0.01
"""Between two passes of a loop, in s: what comes in meanwhile is taken together."""

LONGEST_PAUSE = 86400.0
"""A loop looks once a day at least, in s, whatever the federation says."""

AFTER_A_FAULT = 2.0
"""How long a loop waits after an unexpected fault, in s, before it looks again."""

Run = Callable[[Pass], int]


class Loops:
    """One thread a loop. A pass that changed something is followed by another at once."""

    def __init__(self, store: Store, runs: Mapping[str, Run], bells: Bells) -> None:
        self._store = store
        self._bells = bells
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._loop, args=(name, run), name=f"loop-{name}", daemon=True)
            for name, run in runs.items()
        ]

    def start(self) -> None:
        """Start every loop."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every loop finish its pass, and wait for it."""
        self._stopping.set()
        self._bells.ring_all()
        for thread in self._threads:
            thread.join()

    def _loop(self, name: str, run: Run) -> None:
        while not self._stopping.is_set():
            changed, period = self._pass(name, run)
            self._stopping.wait(SHORTEST_PAUSE)
            if not changed:
                self._bells.wait(name, min(period, LONGEST_PAUSE))

    def _pass(self, name: str, run: Run) -> tuple[int, float]:
        """One pass; a fault is logged and the world looked at anew, for nothing is kept between passes."""
        try:
            loops = self._store.federation().loops
            return run(Pass.begin(loops.batch)), loops.period
        except NoFederation:
            return 0, AFTER_A_FAULT
        except Exception:
            log.exception("loop %s: this pass failed, the next one starts from the store", name)
            return 0, AFTER_A_FAULT
