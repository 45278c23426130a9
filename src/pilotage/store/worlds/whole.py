"""The whole world: all live records. A decision can be repeated from a saved one."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.states import AT_A_PILOT, LIVE_TASKS, LIVE_TRANSFERS, UNSTARTED_JOBS, PilotState
from pilotage.model.records.work import Job
from pilotage.model.rules.job_order import levels_of
from pilotage.model.values.step_names import NOTIFY
from pilotage.store.database.columns import is_state
from pilotage.store.files import copies, publications
from pilotage.store.jobs import borrowings, failures
from pilotage.store.jobs import world as job_world
from pilotage.store.jobs.table import is_live
from pilotage.store.people import notifications
from pilotage.store.pilots.world import live_and_ended_pilots
from pilotage.store.tasks import stages
from pilotage.store.tasks import world as task_world
from pilotage.store.tasks.table import tasks
from pilotage.store.transfers import staging
from pilotage.store.worlds import broker_facts, watching
from pilotage.store.worlds.fields import Reads
from pilotage.store.worlds.parts import Reading, part

MOST_COPIES = 1000
"""Most copies in a whole world."""

_LIVE_TASKS = select(tasks.c.id).where(is_state(tasks, *LIVE_TASKS))


@part("jobs", "transfers")
def _live(reading: Reading) -> Mapping[str, Any]:
    """Read all live jobs and transfers."""
    reader = reading.reader
    jobs = broker_facts.with_first_skips(reader, reader.jobs_where(is_live))
    return {"jobs": jobs, "transfers": reader.transfers_in(*LIVE_TRANSFERS)}


@part("tasks")
def _tasks(reading: Reading) -> Mapping[str, Any]:
    """Read all live tasks, and the tasks of live jobs."""
    live = [id_ for (id_,) in reading.reader.raw_rows(_LIVE_TASKS)]
    return {"tasks": reading.reader.tasks([*live, *(job.task for job in reading["jobs"])])}


@part("files")
def _files(reading: Reading) -> Mapping[str, Any]:
    """Add inputs and outputs of the jobs, and files of the transfers, to the files of publications."""
    jobs, moving = reading["jobs"], reading["transfers"]
    names = {name for job in jobs for name in job.inputs} | {transfer.file for transfer in moving}
    outputs = reading.reader.outputs_of(job.id for job in jobs)
    every_file = {*reading.reader.files(names), *outputs, *reading["files"]}
    return {"files": tuple(sorted(every_file, key=lambda file: file.name))}


@part("unawaited")
def _unawaited(reading: Reading) -> Mapping[str, Any]:
    """Read queued downloads that no job waits for (D2)."""
    return {"unawaited": staging.unawaited(reading.reader, reading.world, reading["transfers"])}


@part("candidacies")
def _candidacies(reading: Reading) -> Mapping[str, Any]:
    """Read the queues that may take the waiting jobs (E1)."""
    waiting = (job for job in reading["jobs"] if job.choice is not None and job.state in UNSTARTED_JOBS)
    return {"candidacies": borrowings.candidacies_of(reading.reader, (job.choice for job in waiting))}


@part("borrowings")
def _borrowings(reading: Reading) -> Mapping[str, Any]:
    """Read jobs that pilots took from other queues, still have, and that read remotely (E3)."""
    sites = reading.world.federation.sites
    borrowed = (borrowing for site in sites for borrowing in borrowings.readers(reading.reader, site.name))
    return {"borrowings": tuple(borrowed)}


@part("failures")
def _failures(reading: Reading) -> Mapping[str, Any]:
    """Read all kept failed attempts."""
    return {"failures": failures.everything(reading.reader, reading.world.time)}


@part("levels")
def _levels(reading: Reading) -> Mapping[str, Any]:
    """Count activated jobs by requirements and priority, and by task for tasks with failures (P13, F2)."""
    return {"levels": levels_of(reading["jobs"], {failure.task for failure in reading["failures"]})}


@part("jobs", "files", "usages")
def _ended_jobs(reading: Reading) -> Mapping[str, Any]:
    """Add the ended jobs that conclude scouting, merge or fail a task, with the resources that they used."""
    ended = task_world.of_tasks(reading.reader, reading["tasks"])
    jobs = {job.id: job for job in (*ended["jobs"], *reading["jobs"])}
    files = {file.name: file for file in (*ended["files"], *reading["files"])}
    return {
        "jobs": tuple(jobs[id_] for id_ in sorted(jobs)),
        "files": tuple(files[name] for name in sorted(files)),
        "usages": ended["usages"],
    }


@part("live_jobs", "noted")
def _of_owners(reading: Reading) -> Mapping[str, Any]:
    """Read the live jobs by owner, and when notifications were last made."""
    return {
        "live_jobs": job_world.by_owner(reading.reader.connection)[0],
        "noted": reading.reader.iterated(NOTIFY),
    }


@part("requests")
def _requests(reading: Reading) -> Mapping[str, Any]:
    """Read requests of all running pilots for the resources that their jobs leave free."""
    world = reading.world
    jobs_by_pilot: defaultdict[int | None, list[Job]] = defaultdict(list)
    for job in reading["jobs"]:
        if job.state in AT_A_PILOT:
            jobs_by_pilot[job.pilot].append(job)
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
        ).less([job.requirements for job in jobs_by_pilot[pilot.id]])
        for pilot in reading["pilots"]
        if pilot.state == PilotState.RUNNING
    )
    return {"requests": tuple(request for request in requests if request.max_jobs > 0)}


WHOLE: Reads = (
    *(
        _live,
        _tasks,
        stages.every_stage,
        "task_counts",
        publications.to_register,
        _files,
        _ended_jobs,
        "replicas",
        _unawaited,
    ),
    *("borrowable_lines", _candidacies, _borrowings, copies.copies(MOST_COPIES)),
    *(live_and_ended_pilots, "task_queues", _requests, "iterated", "job_counts", "link_counts"),
    *("queue_reports", broker_facts.queue_reports, _failures, _levels),
    *(notifications.to_send, notifications.unsent, watching.lapsed, _of_owners),
    *(
        "absences",
        "waiting_results",
        "failed_deliveries",
        "lacking_nodes",
        "lifted_breakers",
        "storage_spaces",
        "advertisements",
    ),
)
"""Everything that the store knows of a world."""
