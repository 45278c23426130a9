"""What rebinding reads first: whether a pilot is idle while jobs wait elsewhere."""

from collections.abc import Mapping
from typing import Any

from pilotage.model.records.states import JobState
from pilotage.model.rules.rebrokerage import idle_slots
from pilotage.store.worlds.parts import Reading, WorldPart


def _idle_elsewhere(reading: Reading) -> Mapping[str, Any] | None:
    counts = reading["job_counts"]
    idle = idle_slots(reading.world.federation, reading["queue_reports"], counts)
    elsewhere = any(row.state is JobState.ACTIVATED and row.queue not in idle for row in counts)
    return {} if idle and elsewhere else None


only_where_idle_elsewhere = WorldPart((), _idle_elsewhere)
"""Read the following parts only if a pilot is idle and a job waits at another queue."""
