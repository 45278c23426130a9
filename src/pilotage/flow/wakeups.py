"""Wake-ups: a commit wakes the loops of the steps that it gives something to do, before their period ends."""

import threading
from collections import defaultdict
from collections.abc import Iterable

from pilotage.model.decision import KINDS, Change, Committed, Create, Creation, Decision, Move
from pilotage.model.states import FIRST, Kind, State

from .step import Step

Subject = tuple[Kind, State]
"""A kind of records, and a state that some of them came into."""


class Wakeups:
    """One event for each step's loop; :meth:`committed` listens to a store's commits."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._events: dict[str, threading.Event] = {}
        self._steps: dict[Subject, list[str]] = defaultdict(list)
        for step in steps:
            self._events[step.name] = threading.Event()
            for subject in step.wakes_on:
                self._steps[subject].append(step.name)

    def wake(self, name: str) -> None:
        """Wake the loop of a step; without one here nothing happens."""
        if name in self._events:
            self._events[name].set()

    def wake_all(self) -> None:
        """Wake every loop."""
        for event in self._events.values():
            event.set()

    def wait(self, name: str, timeout: float) -> None:
        """Sleep until the step is woken, or for ``timeout`` s. Waiting again needs another wake-up."""
        self._events[name].wait(timeout)
        self._events[name].clear()

    def is_woken(self, name: str) -> bool:
        """Tell, once for each wake-up, whether a step was woken; nothing is waited for."""
        woken = self._events[name].is_set()
        self._events[name].clear()
        return woken

    def committed(self, decision: Decision, committed: Committed) -> None:
        """Wake the steps for which a commit made work."""
        self.arrived(arrivals(decision, committed))

    def arrived(self, subjects: Iterable[Subject]) -> None:
        """Wake the steps for which records in these states are work."""
        for subject in subjects:
            for name in self._steps.get(subject, ()):
                self.wake(name)


def arrivals(decision: Decision, committed: Committed) -> set[Subject]:
    """The kinds and states that a commit brought records into."""
    found: set[Subject] = set()
    for change, accepted in zip(decision.changes, committed.accepted, strict=True):
        found |= _subjects(change, bool(accepted))
    return found


def _subjects(change: Change, accepted: bool) -> set[Subject]:
    """The kinds and states that a change brought records into."""
    if isinstance(change, Create):
        return _made(change.records)
    if isinstance(change, Move) and accepted:
        return {(change.kind, change.target)}.union(*map(_made, change.creates.values()))
    return set()


def _made(records: Iterable[Creation]) -> set[Subject]:
    return {(kind, FIRST[kind]) for record in records if (kind := KINDS.get(type(record)))}
