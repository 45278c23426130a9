"""Loops: one thread per step, which runs pass after pass while there is something to do."""

import logging
import threading
from collections.abc import Sequence

from pilotage import log_context
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Step, take
from pilotage.model.records.measurements import FAILED_PASSES, LAST_PASS, PASSES
from pilotage.store import NoFederation, outage

from .isolation import error_line

log = logging.getLogger(__name__)

SHORTEST_PAUSE = 0.01
"""Shortest pause in s between two passes of a loop: news arriving meanwhile are processed together."""

LONGEST_PAUSE = 86400.0
"""Longest pause in s between two passes, whatever the federation's period."""

PAUSE_AFTER_FAULT = 2.0
"""Seconds that a loop waits after a failed pass."""


class Loops:
    """The loops of some steps. A pass that changed something is followed by another at once."""

    def __init__(self, runtime: Runtime, steps: Sequence[Step]) -> None:
        self._runtime = runtime
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._loop, args=(step,), name=f"loop-{step.name}", daemon=True)
            for step in steps
        ]

    def start(self) -> None:
        """Start every loop."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every loop finish its pass, and wait for it."""
        self._stopping.set()
        self._runtime.wakeups.wake_all()
        for thread in self._threads:
            thread.join()

    def _loop(self, step: Step) -> None:
        with log_context.bound(loop=step.name):
            self._passes(step)

    def _passes(self, step: Step) -> None:
        while not self._stopping.is_set():
            # This pass sees everything that woke the loop so far, so clear the wake-up.
            self._runtime.wakeups.is_woken(step.name)
            changed, period = self._pass(step)
            self._stopping.wait(SHORTEST_PAUSE)
            if not (changed and step.goes_on(self._runtime)):
                self._runtime.wakeups.wait(step.name, min(period, LONGEST_PAUSE))

    def _pass(self, step: Step) -> tuple[int, float]:
        """Run one pass. A fault is logged. The next pass starts from the store, because nothing is cached."""
        measurements = self._runtime.store.measurements
        try:
            # The pass reads the federation anyway. A change applies from the next pass on.
            loops = self._runtime.store.last_federation().loops
            with measurements.timed(PASSES, (step.name,)):
                changed = take(step, self._runtime, self._runtime.begin(loops.batch))
        except NoFederation:
            return 0, PAUSE_AFTER_FAULT
        except Exception as error:
            told = outage(error)
            measurements.count(FAILED_PASSES, (step.name,))
            self._runtime.set_aside.failing_loops[step.name] = told or error_line(error)
            if told:
                log.error("loop %s: %s", step.name, told)
            else:
                log.exception("loop %s: this pass failed, the next one starts from the store", step.name)
            return 0, PAUSE_AFTER_FAULT
        self._runtime.set_aside.failing_loops.pop(step.name, None)
        measurements.note(LAST_PASS, step.name, self._runtime.clock())
        return changed, loops.period
