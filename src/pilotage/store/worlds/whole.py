"""The whole world: all live records. A decision can be repeated from a saved one."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from operator import attrgetter
from typing import Any

from sqlalchemy import select

from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.states import (
    AT_A_PILOT,
    LIVE_JOBS,
    LIVE_TASKS,
    LIVE_TRANSFERS,
    UNSTARTED_JOBS,
    PilotState,
)
from pilotage.model.records.work import Job
from pilotage.model.rules.job_order import levels_of
from pilotage.model.values.step_names import NOTIFY
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.files import copies, publications
from pilotage.store.files.table import FILE_COLUMNS, file, files
from pilotage.store.jobs import borrowings, failures
from pilotage.store.jobs import world as job_world
from pilotage.store.jobs.table import is_live, job_inputs, jobs
from pilotage.store.people import notifications
from pilotage.store.pilots.world import live_and_ended_pilots
from pilotage.store.reader import RecordReader
from pilotage.store.tasks import stages
from pilotage.store.tasks import world as task_world
from pilotage.store.tasks.table import tasks
from pilotage.store.transfers import staging
from pilotage.store.worlds import broker_facts, watching
from pilotage.store.worlds.fields import Reads
from pilotage.store.worlds.parts import Reading, part

MOST_COPIES = 1000
"""Most copies in a whole world."""

_j = jobs.c
_LIVE_TASKS = select(tasks.c.id).where(is_state(tasks, *LIVE_TASKS))
_TASKS_OF_JOBS = select(_j.task).where(is_live).distinct()
_INPUTS = select(job_inputs.c.file).join(jobs, _j.id == job_inputs.c.job).where(is_live).distinct()
_OUTPUTS = select(*FILE_COLUMNS).where(
    files.c.job.in_(select(_j.id).where(is_live)), files.c.job.is_not(None)
)
_CHOICES = (
    select(_j.choice).where(is_live, is_state(jobs, *UNSTARTED_JOBS), _j.choice.is_not(None)).distinct()
)
_AT_PILOTS = select(_j.pilot, _j.requirements).where(is_live, is_state(jobs, *AT_A_PILOT)).order_by(_j.id)

_LIVE_BY_NUMBER = has_state(jobs, *LIVE_JOBS)
"""By an index of states, SQLite would sort all of them in memory."""


class WorldJobs:
    """All live jobs and some that ended, by number. It needs the transaction of its reader.

    Each iteration reads the jobs again, page by page: a million of them would take more than a GiB.
    """

    def __init__(self, reader: RecordReader, ended: Sequence[Job] = ()) -> None:
        self._reader = reader
        self._ended = ended

    def __iter__(self) -> Iterator[Job]:
        last = 0
        for job in merge(self._live(), self._ended, key=attrgetter("id")):
            if job.id != last:
                yield job
                last = job.id

    def _live(self) -> Iterator[Job]:
        for page in self._reader.pages_of_jobs(_LIVE_BY_NUMBER):
            yield from broker_facts.with_first_skips(self._reader, page)


@part("jobs", "transfers")
def _live(reading: Reading) -> Mapping[str, Any]:
    """Read all live jobs and transfers."""
    return {"jobs": WorldJobs(reading.reader), "transfers": reading.reader.transfers_in(*LIVE_TRANSFERS)}


@part("tasks")
def _tasks(reading: Reading) -> Mapping[str, Any]:
    """Read all live tasks, and the tasks of live jobs."""
    rows = (*reading.reader.raw_rows(_LIVE_TASKS), *reading.reader.raw_rows(_TASKS_OF_JOBS))
    return {"tasks": reading.reader.tasks(id_ for (id_,) in rows)}


@part("files")
def _files(reading: Reading) -> Mapping[str, Any]:
    """Add inputs and outputs of the jobs, and files of the transfers, to the files of publications."""
    inputs = {name for (name,) in reading.reader.raw_rows(_INPUTS)}
    names = inputs | {transfer.file for transfer in reading["transfers"]}
    outputs = map(file, reading.reader.raw_rows(_OUTPUTS))
    every_file = {*reading.reader.files(names), *outputs, *reading["files"]}
    return {"files": tuple(sorted(every_file, key=lambda file: file.name))}


@part("unawaited")
def _unawaited(reading: Reading) -> Mapping[str, Any]:
    """Read queued downloads that no job waits for (D2)."""
    return {"unawaited": staging.unawaited(reading.reader, reading.world, reading["transfers"])}


@part("candidacies")
def _candidacies(reading: Reading) -> Mapping[str, Any]:
    """Read the queues that may take the waiting jobs (E1)."""
    choices = (choice for (choice,) in reading.reader.raw_rows(_CHOICES))
    return {"candidacies": borrowings.candidacies_of(reading.reader, choices)}


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
    by_name = {file.name: file for file in (*ended["files"], *reading["files"])}
    return {
        "jobs": WorldJobs(reading.reader, ended["jobs"]),
        "files": tuple(by_name[name] for name in sorted(by_name)),
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
    held: defaultdict[int, list[str]] = defaultdict(list)
    for number, requirements in reading.reader.raw_rows(_AT_PILOTS):
        held[number].append(requirements)
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
