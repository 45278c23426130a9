"""Changes of a task's fields for jobs that are made already: which fields, and their stored form.

This is the one list of fields for ``set``, ``retry --set`` and ``explain --what-if``.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.types import DESCRIBED

MEMORY = "memory"
"""MB that a job may use on all its cores together. It replaces ``ram``, ``ram_unit: MB``, ``base_ram: 0``."""

MEMORY_FIELDS = frozenset({"ram", "ram_unit", "base_ram"})

OF_OTHER_JOBS = frozenset({"inputs", "files_per_job", "jobs", "scouts", "parameters", "after", "on"})
"""Fields that would make other jobs. Only another task has other values."""

STAYING = frozenset(
    {
        *("name", "command", "environment", "payload_files", "strict_processes", "events_per_job"),
        *("min_events", "outputs", "optional_outputs", "merge", "output_dataset", "nucleus"),
        *("transfer_priority", "transfer_sub_share", "brokerage", "binding", "workflow", "seed"),
        *("max_attempts", "retries", "labels", "conda", "modules", "stdin", "secrets", "notify"),
        *("mounts", "destinations"),
    }
)
"""Fields that stay as they are for jobs that are made: what a job does, and where its results go. All others
may change: they decide where and how it runs."""

NOT_OF_MERGES = frozenset({"cores", "max_cores", "gpus", "cpu_time", "event_service"})
"""Fields that merge jobs do not take from the task."""

MEASURED = {
    **{name: name for name in ("cpu_time", "base_time", "walltime", "work_disk", "out_disk")},
    **dict.fromkeys(MEMORY_FIELDS, "memory"),
}
"""The measurement of scouts that a changed field replaces."""

KNOWN_TEXTS = 4096
"""Most cached texts of changes: matches and passes read the same ones again and again."""

MOST_NOTES = 20
"""Most notes that a task keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeNote:
    """A change that a person made to jobs of a task."""

    __pydantic_config__ = DESCRIBED

    time: float
    """When, in s since 1970."""
    by: str
    """Who."""
    what: str
    """The fields, from what to what."""
    jobs: int
    """Jobs that changed immediately. Jobs made later have the change too, unless it is of one job."""
    job: int | None = None
    """The job, if the change is of one job."""


def notes(text: str) -> tuple[ChangeNote, ...]:
    """Return the notes of a task from their stored form."""
    return tuple(ChangeNote(**note) for note in json.loads(text)) if text else ()


def noted(text: str, note: ChangeNote) -> str:
    """Return the stored form with one more note."""
    return json.dumps([asdict(entry) for entry in (*notes(text), note)[-MOST_NOTES:]], separators=(",", ":"))


def to_text(values: Mapping[str, Any]) -> str:
    """Return the stored form of changed fields: equal changes have equal texts. Empty: none."""
    return json.dumps(dict(values), sort_keys=True, separators=(",", ":")) if values else ""


@lru_cache(maxsize=KNOWN_TEXTS)
def from_text(text: str) -> Mapping[str, Any]:
    """Return the changed fields of a stored form."""
    values: Mapping[str, Any] = json.loads(text) if text else {}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def merged(text: str, values: Mapping[str, Any]) -> str:
    """Return the stored form of earlier changes and further ones, which win."""
    return to_text({**from_text(text), **values}) if values else text


def without(text: str, names: Iterable[str]) -> str:
    """Return the stored form without some fields."""
    excluded = set(names)
    return to_text({name: value for name, value in from_text(text).items() if name not in excluded})


def for_merges(text: str, spec: TaskSpec) -> str:
    """Return a task's changes for a merge job made later: fields that ``merge`` itself sets stay."""
    merge_fields = {name for name in ("ram", "walltime") if getattr(spec.merge, name, None) is not None}
    return without(
        text, NOT_OF_MERGES | merge_fields | (MEMORY_FIELDS if "ram" in merge_fields else frozenset())
    )


def changed_spec(spec: TaskSpec, text: str, *, is_merge: bool) -> TaskSpec:
    """Return the specification with changed fields, also within ``merge`` for a merge job."""
    values = from_text(text)
    if is_merge and spec.merge is not None:
        merge_values = {name: values[name] for name in ("ram", "walltime") if name in values}
        return replace(spec, **values, merge=replace(spec.merge, **merge_values))
    return replace(spec, **values)


def expanded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes with ``memory`` in the fields of a task."""
    rest = {name: value for name, value in values.items() if name != MEMORY}
    return {**rest, "ram": values[MEMORY], "ram_unit": "MB", "base_ram": 0} if MEMORY in values else rest
