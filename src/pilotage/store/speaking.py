"""The world of what pilots tell: they, the jobs they have, and those they speak of."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from sqlalchemy import select

from pilotage.model.work import Job
from pilotage.model.world import HeldAttempt, Report, World

from . import failures
from .held_jobs import held_by
from .jobs import jobs
from .pilots import pilots
from .reader import RecordReader
from .sets import among

_j = jobs.c
_HELD = held_by("pilots")
_HELD_ATTEMPTS = select(_j.pilot, _j.id, _j.attempt).where(_HELD)
_THESE = among(_j.id, "ids")
_ASKING = among(pilots.c.id, "pilots")


def read(
    reader: RecordReader,
    world: World,
    asking: Sequence[int],
    reports: Sequence[Report],
    holding: Sequence[tuple[int, int]],
    quiet: Sequence[HeldAttempt],
) -> dict[str, Any]:
    """Return the parts of a world, as ``Snapshots.for_reports`` describes it."""
    named = {report.job for report in reports} | {job for job, _ in holding}
    held, found = _spoken_of(reader, list(asking), named, quiet)
    speaking = reader.pilots(_ASKING, pilots=list(asking))
    ends = {report.state for report in reports} & {"done", "failed"}
    queues = sorted({pilot.queue for pilot in speaking}) if ends else []
    told = failures.of_queues(reader, world.time, queues) if queues else ()
    elsewhere = failures.of_retried(reader, world.time, found)
    storages = any(report.storage_fault or report.read_from for report in reports)
    return {
        "pilots": speaking,
        "jobs": found,
        "tasks": reader.tasks_of(found),
        "held": held,
        "failures": tuple(dict.fromkeys((*told, *elsewhere))),
        "queue_reports": reader.queue_reports() if "failed" in ends else (),
        "failed_deliveries": reader.failed_deliveries() if storages else (),
    }


def _spoken_of(
    reader: RecordReader, asking: Sequence[int], named: AbstractSet[int], quiet: Sequence[HeldAttempt]
) -> tuple[tuple[HeldAttempt, ...], tuple[Job, ...]]:
    """The quiet attempts that the pilots have, and all other jobs that they have or name."""
    if not quiet:
        mine = reader.jobs_where(_HELD, pilots=asking)
        others = named - {job.id for job in mine}
        found = (*mine, *(reader.jobs_where(_THESE, ids=sorted(others)) if others else ()))
        return (), tuple(sorted(found, key=lambda job: job.id))
    at_pilots = set(reader.raw_rows(_HELD_ATTEMPTS, pilots=asking))
    known = at_pilots.intersection(quiet)
    ids = named | {job for _, job, _ in at_pilots.symmetric_difference(quiet)}
    return tuple(sorted(known)), reader.jobs_where(_THESE, ids=sorted(ids)) if ids else ()
