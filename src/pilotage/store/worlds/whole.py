"""The whole world: all that is live, as it is saved, and any decision made again from it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import select

from pilotage.model.documents.world import MatchRequest, World
from pilotage.model.records.borrowing import Borrowing
from pilotage.model.records.states import AT_A_PILOT, LIVE_TASKS, LIVE_TRANSFERS, UNSTARTED_JOBS, PilotState
from pilotage.model.records.work import Job, Pilot
from pilotage.model.values.step_names import PROVISION
from pilotage.store.database.columns import is_state
from pilotage.store.tables import borrowing_queues, failures, publications
from pilotage.store.tables.jobs import is_live
from pilotage.store.tables.reader import RecordReader
from pilotage.store.tables.tasks import tasks

from . import borrowings, broker_facts, copies, staging

MOST_COPIES = 1000
"""How many copies that Pilotage made a whole world shows."""

_LIVE_TASKS = select(tasks.c.id).where(is_state(tasks, *LIVE_TASKS))


def read(reader: RecordReader, world: World) -> dict[str, Any]:
    """All that is live, in order, and a request for work of every pilot that runs."""
    found = reader.jobs_where(is_live)
    moving = reader.transfers_in(*LIVE_TRANSFERS)
    live = reader.live_pilots()
    live_tasks = [id_ for (id_,) in reader.rows(_LIVE_TASKS)]
    published = publications.read(reader, world)
    names = {name for job in found for name in job.inputs} | {transfer.file for transfer in moving}
    made = reader.outputs_of(job.id for job in found)
    outputs = published["files"]
    known = tuple(sorted({*reader.files(names), *made, *outputs}, key=lambda file: file.name))
    choices = (job.choice for job in found if job.choice is not None and job.state in UNSTARTED_JOBS)
    counts = reader.job_counts()
    return {
        "tasks": reader.tasks([*live_tasks, *(job.task for job in found)]),
        "jobs": found,
        "files": known,
        "replicas": reader.replicas_of(known),
        "transfers": moving,
        "publications": published["publications"],
        "unawaited": staging.unawaited(reader, world, moving),
        **borrowings.borrowable_lines(reader),
        "candidacies": borrowing_queues.of_choices(reader, choices),
        "borrowings": tuple(_readers(reader, world)),
        **copies.read(reader, world, MOST_COPIES),
        "pilots": live,
        "task_queues": reader.task_queues(),
        "job_counts": counts,
        "task_counts": reader.task_counts(live_tasks),
        "link_counts": reader.link_counts(),
        "queue_reports": broker_facts.reports(reader, world, counts),
        "failures": failures.everything(reader, world.time),
        "failed_deliveries": reader.failed_deliveries(),
        "storage_spaces": reader.storage_spaces(),
        "advertisements": reader.advertisements(),
        "requests": _requests(world, live, found),
        "iterated": reader.iterated(PROVISION),
    }


def _readers(reader: RecordReader, world: World) -> Iterator[Borrowing]:
    for site in world.federation.sites:
        yield from borrowings.readers(reader, site.name)


def _requests(world: World, live: Sequence[Pilot], found: Sequence[Job]) -> tuple[MatchRequest, ...]:
    """Requests of all running pilots, for what the jobs that they have leave free."""
    held: defaultdict[int | None, list[Job]] = defaultdict(list)
    for job in found:
        if job.state in AT_A_PILOT:
            held[job.pilot].append(job)
    slots = {
        queue.name: queue.computing_element.pilot_slots
        for queue in world.federation.queues
        if queue.computing_element
    }
    requests = (
        MatchRequest(
            pilot=pilot.id,
            queue=pilot.queue,
            kind=pilot.kind,
            owner=pilot.owner,
            cores=pilot.cores,
            memory=pilot.memory,
            walltime=max(0.0, pilot.walltime - (world.time - pilot.since)),
            max_jobs=slots.get(pilot.queue, 1),
        ).less(held[pilot.id])
        for pilot in live
        if pilot.state == PilotState.RUNNING
    )
    return tuple(request for request in requests if request.max_jobs > 0)
