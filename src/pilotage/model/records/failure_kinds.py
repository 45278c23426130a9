"""The kinds of failed attempts. What follows from a failure derives from this table alone (F2, F3, F4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FailureKind = Literal[
    "payload",
    "command",
    "container",
    "start",
    "output",
    "limit",
    "memory",
    "walltime",
    "slot-memory",
    "slot-walltime",
    "input",
    "storage",
    "disk",
    "pilot",
    "lost",
]
"""How an attempt failed, as its pilot, its batch system or the watchdog saw it."""

Culprit = Literal["task", "unknown", "nobody", "node", "pilot", "storage"]
"""Whose fault a failure is. ``unknown``: its task's or its place's, which only other attempts show (F2)."""

Exceeded = Literal["", "memory", "walltime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRules:
    """What follows from failures of a kind."""

    words: str
    """What happened to the attempt."""
    culprit: Culprit
    """Whose fault it is."""
    exceeded: Exceeded = ""
    """The limit that it exceeded: the next attempt asks for more of it."""
    shared: bool = False
    """Whether the limit was that of its pilot's slot: another payload there may have used most of it."""
    began: bool = True
    """Whether its payload began."""

    @property
    def counts(self) -> bool:
        """Return whether it always counts as one of the job's attempts, unless its place is proven bad."""
        return self.culprit in ("task", "unknown", "nobody")

    @property
    def stops_tasks(self) -> bool:
        """Return whether failures of the kind stop a task if all its first ones are alike (F3)."""
        return self.began and self.culprit in ("task", "unknown")

    @property
    def trips(self) -> bool:
        """Return whether failures of the kind may trip the circuit breaker of a queue or a node (F2)."""
        return self.culprit in ("unknown", "node")


FAILURE_RULES: Mapping[FailureKind, FailureRules] = {
    "payload": FailureRules(words="its payload ended with an error, or by a signal", culprit="unknown"),
    "command": FailureRules(words="its command could not be started", culprit="unknown"),
    "container": FailureRules(words="no program of its node could run its image", culprit="unknown"),
    "start": FailureRules(words="its payload could not be prepared", culprit="unknown", began=False),
    "output": FailureRules(words="its payload left an output out, or a bad one", culprit="unknown"),
    "limit": FailureRules(words="exceeded its work directory, or its number of processes", culprit="task"),
    "memory": FailureRules(words="exceeded its memory", culprit="task", exceeded="memory"),
    "walltime": FailureRules(words="exceeded its walltime", culprit="task", exceeded="walltime"),
    "slot-memory": FailureRules(
        words="its pilot's slot ran out of memory", culprit="task", exceeded="memory", shared=True
    ),
    "slot-walltime": FailureRules(
        words="its pilot was at the end of its time", culprit="nobody", exceeded="walltime", shared=True
    ),
    "input": FailureRules(words="an input was not at its storage as recorded", culprit="nobody"),
    "storage": FailureRules(words="a storage gave or took no file", culprit="storage"),
    "disk": FailureRules(words="its node's disk was full or broken", culprit="node"),
    "pilot": FailureRules(words="its pilot stopped it, or was lost", culprit="pilot"),
    "lost": FailureRules(
        words="it was lost with its pilot, which does not contain payloads", culprit="nobody"
    ),
}
