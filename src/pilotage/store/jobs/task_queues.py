"""Task queues (P1): activated jobs by queue, requirements and priority, kept by the commit.

``activations`` counts, for each queue, the commits that activated jobs there. While its number stays the
same, a cached task queue has gained no jobs and no higher priority.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    String,
    Table,
    func,
    select,
)

from pilotage.model.records.states import JobState
from pilotage.store.database import bulk
from pilotage.store.database.columns import metadata
from pilotage.store.database.dialects import AnyConnection, WithDeltas

LINE_COLUMNS = ("queue", "requirements", "priority")
"""The columns that give a job's place in line."""

task_queues = Table(
    "task_queues",
    metadata,
    Column("queue", String, primary_key=True),
    Column("requirements", String, primary_key=True),
    Column("priority", Integer, primary_key=True, autoincrement=False),
    Column("jobs", Integer, nullable=False),
)

activations = Table(
    "activations",
    metadata,
    Column("queue", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
)


_DEPARTED = (
    f"SELECT queue, requirements, priority, -count FROM job_deltas WHERE source = '{JobState.ACTIVATED}'"
)
lines = WithDeltas("lines", task_queues, _DEPARTED)
"""The task queues, with departed jobs that are still to be subtracted."""

LEVELS = (
    select(lines.c.queue, lines.c.requirements, lines.c.priority, func.sum(lines.c.jobs).label("jobs"))
    .group_by(lines.c.queue, lines.c.requirements, lines.c.priority)
    .having(func.sum(lines.c.jobs) > 0)
)
"""Activated jobs by queue, requirements and priority."""


def write_lines(
    connection: AnyConnection, lines: Mapping[tuple[Any, ...], int], activated: Iterable[str]
) -> None:
    """Add differences to task queues, and count the commit for queues with activated jobs."""
    rows = [(*line, count) for line, count in lines.items() if count]
    bulk.add(connection, task_queues, LINE_COLUMNS, "jobs", rows)
    bulk.add(connection, activations, ("queue",), "number", [(queue, 1) for queue in activated])
