"""Which loop is woken by which change: loops of one process need not wait for their period."""

import threading
from collections.abc import Iterable

from pilotage.model.decision import KINDS, Change, Committed, Create, Creation, Decision, Move
from pilotage.model.states import FIRST, JobState, Kind, PilotState, State, TaskState, TransferState

WAKES: dict[tuple[Kind, State], tuple[str, ...]] = {
    ("task", TaskState.REGISTERED): ("split",),
    ("job", JobState.DEFINED): ("broker",),
    ("job", JobState.SENT): ("broker",),
    ("job", JobState.RUNNING): ("broker",),
    ("job", JobState.ACTIVATED): ("provision",),
    ("job", JobState.HOLDING): ("stage",),
    ("job", JobState.MERGING): ("finish",),
    ("job", JobState.FINISHED): ("finish",),
    ("job", JobState.FAILED): ("finish",),
    ("transfer", TransferState.QUEUED): ("stage",),
    ("transfer", TransferState.FINISHING): ("stage",),
    ("transfer", TransferState.FAILED): ("stage",),
    ("pilot", PilotState.FINISHED): ("provision", "watch"),
    ("pilot", PilotState.FAILED): ("provision", "watch"),
}


class Bells:
    """A bell for each loop; :meth:`ring_for` listens to a store's commits."""

    def __init__(self, names: Iterable[str]) -> None:
        self._bells = {name: threading.Event() for name in names}

    def ring(self, name: str) -> None:
        """Wake a loop, if it runs here."""
        if name in self._bells:
            self._bells[name].set()

    def ring_all(self) -> None:
        """Wake every loop."""
        for bell in self._bells.values():
            bell.set()

    def wait(self, name: str, timeout: float) -> None:
        """Sleep until the loop's bell rings, or for ``timeout`` s; the bell is silent afterwards."""
        self._bells[name].wait(timeout)
        self._bells[name].clear()

    def ring_for(self, decision: Decision, committed: Committed) -> None:
        """Wake the loops that a committed decision gives something to do."""
        for change, accepted in zip(decision.changes, committed.accepted, strict=True):
            for subject in _subjects(change, bool(accepted)):
                for name in WAKES.get(subject, ()):
                    self.ring(name)


def _subjects(change: Change, accepted: bool) -> set[tuple[Kind, State]]:
    if isinstance(change, Create):
        return _made(change.records)
    if isinstance(change, Move) and accepted:
        return {(change.kind, change.target)}.union(*map(_made, change.creates.values()))
    return set()


def _made(records: Iterable[Creation]) -> set[tuple[Kind, State]]:
    return {(kind, FIRST[kind]) for record in records if (kind := KINDS.get(type(record)))}
