"""Drains and closures in words."""

from collections.abc import Mapping
from typing import Any

from pilotage.model.values.phrases import moment

DRAIN: Mapping[str, str] = {
    "queue": "Start nothing new at a queue: waiting jobs go elsewhere immediately, running ones end there.",
    "site": "Start nothing new at a site: waiting jobs go elsewhere immediately, running ones end there.",
    "storage": "Write no new files to a storage. Files there are still read.",
}
CLOSE: Mapping[str, str] = {
    "queue": "Start nothing at a queue until it opens. Its jobs wait there, and no time-out ends them.",
    "site": "Start nothing at a site, and leave its storages alone, until it opens. Its jobs wait.",
    "storage": "Neither read from a storage nor write to it until it opens.",
}
_PARTS = {
    "waiting": ("waiting job", "waiting jobs"),
    "running": ("running job", "running jobs"),
    "leaving": ("job with outputs on the way", "jobs with outputs on the way"),
    "transfers": ("live transfer", "live transfers"),
}


def describe_remains(place: Mapping[str, Any]) -> str:
    """Describe the jobs and transfers left at a restricted place, from their numbers by name."""
    parts = [
        f"{count} {words[count != 1]}" for name, words in _PARTS.items() if (count := place.get(name, 0))
    ]
    ended = ""
    if lost := place.get("pilot_ended", 0):
        ended = (
            f"; {lost} of the running jobs are at pilots that ended in the batch system, and go on elsewhere "
            f"by {moment(place['pilot_ended_until'])}"
        )
    return f"still there: {', '.join(parts)}{ended}" if parts else "nothing is left there"


def status(declared: str, restriction: str, states: set[str]) -> str:
    """Return the status of a queue: as declared or closed, and with the state of its circuit breakers."""
    word = "closed" if declared == "paused" and restriction else declared
    tripped = next((state for state in ("open", "half-open") if state in states), "")
    return f"{word}, breaker {tripped}" if tripped else word
