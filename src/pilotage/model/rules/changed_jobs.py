"""What a job's columns become where fields of its task change for it alone."""

from collections.abc import Mapping
from typing import Any

from pilotage.model.records.job_changes import MOST_NOTES, merged, notes
from pilotage.model.records.requirements import Requirements
from pilotage.model.records.work import Job, JobKind, Task

MANY_CHANGES = "what the task's notes of changes say"
"""Words of the cause of a change after ``MOST_NOTES`` earlier ones of the same task."""

MOST_SHOWN = 100
"""Most characters of a value in words."""


def changed_columns(task: Task, job: Job, values: Mapping[str, Any]) -> dict[str, str | int]:
    """Return the columns of a job that these fields change; none if it stays as it is."""
    text = merged(job.changes, values)
    before, after = (task.changed(changes, job.kind) for changes in (job.changes, text))
    if before == after:
        return {}
    spec = after.expected(job.kind)
    columns: dict[str, str | int] = {
        "changes": text,
        "requirements": Requirements.of(spec, task.owner).text,
    }
    if "priority" in values:
        columns["priority"] = spec.priority
    if "share" in values:
        columns["share"] = spec.share
    return columns


def in_words(task: Task, changes: str, kind: JobKind, values: Mapping[str, Any]) -> str:
    """Return the fields that differ for a job with earlier changes, from what to what."""
    before, after = (task.changed(text, kind).expected(kind) for text in (changes, merged(changes, values)))
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in sorted(values))
    return ", ".join(
        f"{name} {_short_text(old)} to {_short_text(new)}" for name, old, new in pairs if old != new
    )


def words_of_cause(task: Task, changes: str, kind: JobKind, values: Mapping[str, Any]) -> str:
    """Return the words of ``in_words`` for the first changes of a task, then one text for all.

    The store keeps each different cause for good. With the one text, a task adds a bounded number of them.
    """
    words = in_words(task, changes, kind, values)
    return MANY_CHANGES if words and len(notes(task.change_notes)) >= MOST_NOTES else words


def _short_text(value: Any) -> str:
    """Return a value for histories and notes, which every job repeats."""
    text = "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
    if isinstance(value, float):
        text = f"{value:.10g}"
    return text if 0 < len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..." if text else "none"
