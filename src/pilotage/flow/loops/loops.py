"""Loops: one thread per step, which runs pass after pass while there is something to do."""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from pilotage import log_lines
from pilotage.flow.background import BackgroundService
from pilotage.flow.loops.isolation import error_line
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Step, take
from pilotage.model.records.measurements import FAILED_PASSES, LAST_PASS, LOOP_LAGS, PASSES
from pilotage.model.records.servers import LoopPass
from pilotage.store import NoFederation, outage

log = logging.getLogger(__name__)

SHORTEST_PAUSE = 0.01
"""Shortest pause in s between two passes of a loop: news that arrive in it are processed together."""

LONGEST_PAUSE = 86400.0
"""Longest pause in s between two passes, even if the federation's period is longer."""

PAUSE_AFTER_FAULT = 2.0
"""Seconds that a loop waits after a failed pass."""

PAUSE_OUT_OF_TOUCH = 0.2
"""Seconds between two checks whether a server has its lost lease again."""

LOOK_AT_ENDING = 0.2
"""Longest pause in s between two passes of a loop that waits for its begun work before it ends."""


class Loops(BackgroundService):
    """The loops of some steps. After a pass that changed something, the next one follows immediately.

    Loops that stop begin nothing new. They wait at most ``finish_within`` s for the work that this process
    has begun outside, and record how it ended.
    """

    def __init__(self, runtime: Runtime, steps: Sequence[Step], finish_within: float = 0.0) -> None:
        super().__init__({f"loop-{step.name}": partial(self._loop, step) for step in steps})
        self._runtime = runtime
        self._finish_within = finish_within
        self._finish_until = 0.0

    def stop(self) -> None:
        """Let every loop finish its pass and its begun work, and wait for it."""
        self._finish_until = time.monotonic() + self._finish_within
        super().stop()

    def wake(self) -> None:
        """Let every loop look for work."""
        self._runtime.wakeups.wake_all()

    def _loop(self, step: Step) -> None:
        with log_lines.bound(loop=step.name):
            self._passes(step)

    def _passes(self, step: Step) -> None:
        while not self._stopping.is_set():
            if self._runtime.presence.term is None:
                self._stopping.wait(PAUSE_OUT_OF_TOUCH)
                continue
            # This pass sees everything that woke the loop so far, so clear the wake-up.
            self._runtime.wakeups.is_woken(step.name)
            if (lag := self._runtime.wakeups.lag(step.name)) is not None:
                self._runtime.store.measurements.observe(LOOP_LAGS, (step.name,), lag)
            changed, period = self._pass(step)
            self._stopping.wait(SHORTEST_PAUSE)
            if not (changed and step.goes_on(self._runtime)):
                self._runtime.wakeups.wait(step.name, min(period, LONGEST_PAUSE))
        if step.in_hand is not None:
            self._finish(step, step.in_hand)

    def _finish(self, step: Step, in_hand: Callable[[Runtime], int]) -> None:
        """Record what this process has begun outside, until nothing is left or the time is over."""
        while (unfinished := in_hand(self._runtime)) and time.monotonic() < self._finish_until:
            self._pass(step, ending=True)
            self._runtime.wakeups.wait(step.name, LOOK_AT_ENDING)
        if unfinished:
            log.warning("loop %s: %d not done in time are left to the next server", step.name, unfinished)

    def _pass(self, step: Step, *, ending: bool = False) -> tuple[int, float]:
        """Run one pass. A fault is logged. The next pass starts from the store, because nothing is cached."""
        begun, failed = time.monotonic(), ""
        measurements = self._runtime.store.measurements
        try:
            # The pass reads the federation anyway. A change applies from the next pass on.
            loops = self._runtime.store.last_federation().loops
            with measurements.timed(PASSES, (step.name,)):
                changed = take(step, self._runtime, self._runtime.begin(loops.batch), ending=ending)
        except NoFederation:
            return 0, PAUSE_AFTER_FAULT
        except Exception as error:
            reason = outage(error)
            measurements.count(FAILED_PASSES, (step.name,))
            failed = reason or error_line(error)
            self._runtime.set_aside.failing_loops[step.name] = failed
            if reason:
                log.error("loop %s: %s", step.name, reason)
            else:
                log.exception("loop %s: this pass failed, the next one starts from the store", step.name)
            return 0, PAUSE_AFTER_FAULT
        finally:
            seconds = time.monotonic() - begun
            self._runtime.passes[step.name] = LoopPass(
                ended=self._runtime.clock(), seconds=seconds, error=failed
            )
        self._runtime.set_aside.failing_loops.pop(step.name, None)
        measurements.note(LAST_PASS, step.name, self._runtime.clock())
        return changed, loops.period
