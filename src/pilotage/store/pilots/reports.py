"""The world of pilots' reports: the pilots, their jobs, and the jobs that they mention."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pilotage.model.documents.world import Heartbeat
from pilotage.model.records.work import Job
from pilotage.store.database.rows import among
from pilotage.store.jobs import failures
from pilotage.store.jobs.table import jobs
from pilotage.store.pilots.held_jobs import ATTEMPTS, WORDS, by_pilot, held_by, words
from pilotage.store.pilots.table import pilots
from pilotage.store.reader import RecordReader
from pilotage.store.worlds.parts import Reading, WorldPart

_j = jobs.c
_HELD = held_by("pilots")
_THESE = among(_j.id, "ids")
_ASKING = among(pilots.c.id, "pilots")


def told_by_pilots(heartbeats: Sequence[Heartbeat], quiet: bool = False) -> WorldPart:
    """Read the calling pilots, their reports, their jobs, and the jobs that they mention.

    With ``quiet``, leave out jobs that a pilot only holds, here and in its report. That takes another query,
    which pays off for many pilots together.
    """
    names = ("pilots", "heartbeats", "jobs", "tasks", "failures", "queue_reports", "failed_deliveries")
    return WorldPart(names, lambda reading: _read(reading, heartbeats, quiet))


def _read(reading: Reading, heartbeats: Sequence[Heartbeat], quiet: bool) -> Mapping[str, Any]:
    reader = reading.reader
    asking = [heartbeat.pilot for heartbeat in heartbeats]
    calls, every_job = (
        _differing(reader, heartbeats, asking)
        if quiet
        else (heartbeats, _spoken_of(reader, heartbeats, asking))
    )
    reports = [report for heartbeat in heartbeats for report in heartbeat.reports]
    speaking = reader.pilots(_ASKING, pilots=asking)
    ends = {report.state for report in reports} & {"done", "failed"}
    queues = sorted({job.queue for job in every_job if job.pilot is not None}) if ends else []
    of_queues = failures.of_queues(reader, reading.world.time, queues) if queues else ()
    elsewhere = failures.of_retried(reader, reading.world.time, every_job)
    storages = any(report.storage_fault or report.read_from or report.outputs for report in reports)
    return {
        "pilots": speaking,
        "heartbeats": tuple(calls),
        "jobs": every_job,
        "tasks": reader.tasks_of(every_job),
        # Failures of retried jobs have verdicts. They replace the same failures without a verdict.
        "failures": tuple(
            {(failure.job, failure.attempt): failure for failure in (*of_queues, *elsewhere)}.values()
        ),
        "queue_reports": reader.queue_reports() if "failed" in ends else (),
        "failed_deliveries": reader.failed_deliveries() if storages else (),
    }


def _spoken_of(
    reader: RecordReader, heartbeats: Sequence[Heartbeat], asking: Sequence[int]
) -> tuple[Job, ...]:
    """Return all jobs that the pilots have or mention."""
    mine = reader.jobs_where(_HELD, pilots=asking)
    further = {job for heartbeat in heartbeats for job, _ in heartbeat.named} - {job.id for job in mine}
    every_job = (*mine, *(reader.jobs_where(_THESE, ids=sorted(further)) if further else ()))
    return tuple(sorted(every_job, key=lambda job: job.id))


def _differing(
    reader: RecordReader, heartbeats: Sequence[Heartbeat], asking: Sequence[int]
) -> tuple[list[Heartbeat], tuple[Job, ...]]:
    """Return jobs with a report, or that only the store or the pilot has; and the calls with only these."""
    # Most are equal, and checking that costs a fraction of finding the difference.
    texts: dict[int, str] = dict(reader.raw_rows(WORDS, pilots=asking))
    unlike = {
        heartbeat.pilot: heartbeat.named
        for heartbeat in heartbeats
        if (texts.get(heartbeat.pilot) or "") != words(heartbeat.named)
    }
    attempts = by_pilot(reader.raw_rows(ATTEMPTS, pilots=sorted(unlike))) if unlike else {}
    differing = {job for pilot, named in unlike.items() for job, _ in named ^ attempts.get(pilot, set())}
    ids = differing.union(report.job for heartbeat in heartbeats for report in heartbeat.reports)
    calls = [
        replace(
            heartbeat,
            holding=tuple([pair for pair in heartbeat.holding if pair[0] in differing] if differing else ()),
        )
        for heartbeat in heartbeats
    ]
    return calls, reader.jobs_where(_THESE, ids=sorted(ids)) if ids else ()
