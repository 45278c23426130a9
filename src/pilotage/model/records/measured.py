"""Needs of jobs, as their task's scouts measured them, and what attempts used."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from pilotage.model.records.job_changes import MEASURED
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.types import CLOSED, Megabytes, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Needs of a task's jobs, measured by its scouts, with a margin; none if no scout reported it.

    Without a measurement, the request counts. Other jobs of the task do the work of failed scouts, so these
    do not count as its failed jobs.
    """

    __pydantic_config__ = CLOSED

    finished: int
    """Scouts that finished and were measured."""
    failed: int = 0
    """Scouts that failed."""
    cpu_time: float | None = None
    """HS23 s per event."""
    base_time: float | None = None
    """s that CPU time does not explain."""
    walltime: float | None = None
    """s."""
    memory: float | None = None
    """MB of a whole job."""
    work_disk: float | None = None
    """MB."""
    out_disk: float | None = None
    """MB per event."""

    def without(self, fields: Iterable[str]) -> "Measured":
        """Return the measurements that no changed field of the task replaces."""
        gone: dict[str, Any] = {MEASURED[name]: None for name in fields if name in MEASURED}
        return replace(self, **gone)

    def replaced(self, spec: TaskSpec) -> TaskSpec:
        """Return the same with measured values in place of estimates."""
        names = ("cpu_time", "base_time", "walltime", "work_disk", "out_disk")
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.memory is not None:
            base = 0.0 if spec.ram_unit == "MB" else min(spec.base_ram, self.memory)
            # The measurement is for the whole job: convert it to the unit of the request.
            values |= {"base_ram": base, "ram": (self.memory - base) / spec.ram_units}
        return replace(spec, **values)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Resources that an attempt used; 0: not reported."""

    __slots__ = ()

    cpu_seconds: Seconds = 0
    """s of CPU time."""
    wall_seconds: Seconds = 0
    """s since the payload started."""
    max_rss: Megabytes = 0
    """Highest memory use, in MB."""
    max_workdir: Megabytes = 0
    """Most data that the payload added to its directory, including outputs, in MB."""


USAGE = tuple(field.name for field in fields(Usage))
