"""Wake-ups: a commit wakes the loops of the steps with new work, before their period ends."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Protocol

from pilotage.model.documents.decision import KINDS, Committed, Create, Creation, Decision, Move
from pilotage.model.records.matching import BorrowRequest, ClaimRequest
from pilotage.model.records.states import FIRST, JobState, Kind, State

Subject = tuple[Kind, State]
"""A kind of records, and a state that some of them entered."""


class Wakeable(Protocol):
    """A step for waking: its name, and the states of records that give it work."""

    @property
    def name(self) -> str:
        """Its name for wake-ups."""

    @property
    def wakes_on(self) -> frozenset[Subject]:
        """States of records that wake it."""

    @property
    def wakes_all_servers(self) -> bool:
        """Whether each server is woken. Otherwise one is."""

    @property
    def hears(self) -> frozenset[str]:
        """Fields of the world that wake it with their news."""


class Wakeups:
    """One event per step's loop. ``committed`` listens to a store's commits.

    ``has_turn`` returns whether this server is the one that new records wake for a loop. Servers that all
    decided the same would only compute and lock more: one commit would win. The others look at their period.
    """

    def __init__(self, steps: Iterable[Wakeable], has_turn: Callable[[str], bool] = lambda _: True) -> None:
        self.has_turn = has_turn
        self._events: dict[str, threading.Event] = {}
        self._since: dict[str, float] = {}
        self._steps: dict[Subject, list[str]] = defaultdict(list)
        self._hearing: dict[str, list[str]] = defaultdict(list)
        self._on_all_servers: set[str] = set()
        for step in steps:
            self._events[step.name] = threading.Event()
            if step.wakes_all_servers:
                self._on_all_servers.add(step.name)
            for subject in step.wakes_on:
                self._steps[subject].append(step.name)
            for field in step.hears:
                self._hearing[field].append(step.name)

    def wake(self, name: str) -> None:
        """Wake the loop of a step, if there is one here."""
        if name in self._events:
            self._since.setdefault(name, time.monotonic())
            self._events[name].set()

    def tell(self, *fields: str) -> None:
        """Wake the loops of the steps that read any of these fields, because there is news from outside."""
        for name in {name for field in fields for name in self._hearing.get(field, ())}:
            self.wake(name)

    def wake_all(self) -> None:
        """Wake every loop."""
        for event in self._events.values():
            event.set()

    def wait(self, name: str, timeout: float) -> None:
        """Sleep until the step is woken, or for ``timeout`` s. Waiting again needs another wake-up."""
        self._events[name].wait(timeout)
        self._events[name].clear()

    def is_woken(self, name: str) -> bool:
        """Return, once per wake-up, whether a step was woken. Do not wait."""
        woken = self._events[name].is_set()
        self._events[name].clear()
        return woken

    def lag(self, name: str) -> float | None:
        """Return, once, the seconds since a step was first woken; None if it was not."""
        since = self._since.pop(name, None)
        return None if since is None else time.monotonic() - since

    def waits(self, name: str) -> bool:
        """Return whether a step was woken and has not been asked since."""
        return self._events[name].is_set()

    def committed(self, decision: Decision, committed: Committed) -> None:
        """Wake the steps that a commit gave work."""
        self.arrived(arrivals(decision, committed))

    def arrived(self, subjects: Iterable[Subject]) -> None:
        """Wake the steps that have work with records in these states, where it is this server's turn."""
        for name in {name for subject in subjects for name in self._steps.get(subject, ())}:
            if name in self._on_all_servers or self.has_turn(name):
                self.wake(name)


def arrivals(decision: Decision, committed: Committed) -> set[Subject]:
    """Return the kinds and states that a commit's records entered and stayed in.

    A job that one report takes from SENT through RUNNING to FINISHED never took a running job's place.
    """
    subjects: set[Subject] = set()
    left_in: defaultdict[Kind, dict[int, State]] = defaultdict(dict)
    for change, accepted in zip(decision.changes, committed.accepted, strict=True):
        if isinstance(change, Move) and accepted:
            left_in[change.kind].update(dict.fromkeys(accepted, change.target))
            subjects = subjects.union(*map(_created_subjects, change.creates.values()))
        elif isinstance(change, ClaimRequest | BorrowRequest):
            left_in["job"].update(dict.fromkeys(accepted, JobState.SENT))
        elif isinstance(change, Create):
            subjects |= _created_subjects(change.records)
    return subjects.union((kind, state) for kind, states in left_in.items() for state in set(states.values()))


def _created_subjects(records: Iterable[Creation]) -> set[Subject]:
    return {(kind, FIRST[kind]) for record in records if (kind := KINDS.get(type(record)))}
