"""The usual reader of each world field. A plain field name in a step's ``reads`` means this reader."""

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.model.records.states import JobState
from pilotage.model.rules.rebrokerage import idle_slots
from pilotage.model.values.step_names import PROVISION
from pilotage.store.jobs import borrowings, failures
from pilotage.store.pilots import waiting_results
from pilotage.store.pilots import world as pilot_world
from pilotage.store.reader import RecordReader
from pilotage.store.worlds.parts import Reading, WorldPart, part

Reads = Sequence[str | WorldPart]
"""What to read, in order: fields by name, and parts."""


@part("tasks")
def _tasks(reading: Reading) -> Mapping[str, Any]:
    """Read the tasks of the jobs."""
    return {"tasks": reading.reader.tasks_of([*reading["jobs"], *reading.get("ahead")])}


@part("files")
def _files(reading: Reading) -> Mapping[str, Any]:
    """Read the files that the jobs read."""
    return {"files": reading.reader.inputs_of([*reading["jobs"], *reading.get("ahead")])}


@part("replicas")
def _replicas(reading: Reading) -> Mapping[str, Any]:
    """Read the files' replicas."""
    return {"replicas": reading.reader.replicas_of(reading["files"])}


@part("pilots")
def _pilots(reading: Reading) -> Mapping[str, Any]:
    """Read all live pilots."""
    return {"pilots": reading.live_pilots.read(reading.reader.connection)}


@part("task_counts")
def _task_counts(reading: Reading) -> Mapping[str, Any]:
    """Read the tasks' jobs by state."""
    ids = [task.id for task in reading["tasks"]]
    return {"task_counts": reading.reader.task_counts(ids) if ids else ()}


@part("usages")
def _usages(reading: Reading) -> Mapping[str, Any]:
    """Read the usage of the jobs' last attempts."""
    return {"usages": reading.reader.usages(reading["jobs"])}


@part("failures")
def _failures(reading: Reading) -> Mapping[str, Any]:
    """Read the failed attempts that count against queues and nodes (F2)."""
    return {"failures": failures.of_places(reading.reader, reading.world.time)}


def _plain(name: str, read: Any) -> WorldPart:
    """Return a part that reads one field completely, independent of other fields."""
    return WorldPart((name,), lambda reading: {name: read(reading.reader)})


_PARTS = (
    *(_tasks, _files, _replicas, _pilots, _task_counts, _usages, _failures),
    _plain("task_queues", RecordReader.task_queues),
    _plain("job_counts", RecordReader.job_counts),
    _plain("link_counts", RecordReader.link_counts),
    _plain("queue_reports", RecordReader.queue_reports),
    _plain("failed_deliveries", RecordReader.failed_deliveries),
    _plain("waiting_results", lambda reader: waiting_results.everything(reader.connection)),
    _plain("absences", RecordReader.absences),
    _plain("lifted_breakers", RecordReader.lifted_breakers),
    _plain("storage_spaces", RecordReader.storage_spaces),
    _plain("advertisements", RecordReader.advertisements),
    _plain("iterated", lambda reader: reader.iterated(PROVISION)),
    borrowings.borrowable_lines,
    pilot_world.lacking_nodes,
)

FIELDS: Mapping[str, WorldPart] = {name: part for part in _PARTS for name in part.fields}
"""The usual part of each field. A field that is missing here has no usual reader."""


def parts_of(reads: Reads) -> tuple[WorldPart, ...]:
    """Return the parts to read, each once. Raises ValueError for a field without a usual reader."""
    parts: dict[int, WorldPart] = {}
    for read in reads:
        if isinstance(read, str) and read not in FIELDS:
            raise ValueError(f"no field {read!r} is read by its name; there are {', '.join(sorted(FIELDS))}")
        part_of_name = FIELDS[read] if isinstance(read, str) else read
        parts.setdefault(id(part_of_name), part_of_name)
    return tuple(parts.values())


def _idle_elsewhere(reading: Reading) -> Mapping[str, Any] | None:
    counts = reading["job_counts"]
    idle = idle_slots(reading.world.federation, reading["queue_reports"], counts)
    elsewhere = any(row.state is JobState.ACTIVATED and row.queue not in idle for row in counts)
    return {} if idle and elsewhere else None


only_where_idle_elsewhere = WorldPart((), _idle_elsewhere)
"""Read the following parts only if a pilot is idle and a job waits at another queue."""
