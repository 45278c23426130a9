"""Whole life cycles a second: submit, split, broker, match, run (an empty payload), report, finish.

Everything goes through HTTP, from real server and pilot processes. The growth figures measure the same rate
while 10 and 100 times as many jobs are queued.
"""

import time
from functools import partial

from pilotage.demo.service import DemoServer
from pilotage.model.records.states import JobState
from pilotage.store import Store

from . import house, stored_jobs

JOBS = 10_000
JOBS_PER_TASK = 1_000
WARMING = 2_000
"""Jobs that have finished when a rate is measured: modules are loaded, statements prepared."""

PAST = 1_000_000
"""Jobs that had finished before."""

WINDOW = 10.0
"""How long a rate is measured while more jobs are queued, in s."""


def figures() -> dict[str, float]:
    """``lifecycles_per_s_DATABASE``, and the same with ``_10x`` and ``_100x`` as many jobs queued.

    With ``_1m_finished`` the store has a million finished jobs before. ``bytes_per_finished_job_DATABASE`` is
    by how much the store grew with each job.
    """
    found: dict[str, float] = {}
    databases: tuple[house.Database, ...] = ("sqlite", "postgresql")
    for database in databases:
        opened: list[Store] = []
        with house.running(database, prepare=opened.append) as server:
            _warm(server)
            found[f"lifecycles_per_s_{database}"] = _whole(server, JOBS)
            # Only then, and of other jobs: on PostgreSQL to measure is to write all tables anew.
            before = sum(stored_jobs.sizes(opened[0]).values())
            _whole(server, JOBS)
            grown = sum(stored_jobs.sizes(opened[0]).values()) - before
            found[f"bytes_per_finished_job_{database}"] = grown / JOBS
        with house.running(database, prepare=partial(stored_jobs.fill, jobs=PAST)) as server:
            _warm(server)
            found[f"lifecycles_per_s_{database}_1m_finished"] = _whole(server, JOBS)
        for factor in (10, 100):
            queued = partial(stored_jobs.fill, jobs=factor * JOBS, state=JobState.DEFINED)
            with house.running(database, prepare=queued) as server:
                _warm(server)
                found[f"lifecycles_per_s_{database}_{factor}x"] = _rate(server)
    return found


def _whole(server: DemoServer, jobs: int) -> float:
    """From the first submission until the last job has finished."""
    before, begun = finished(server), time.monotonic()
    submit(server, jobs)
    # Asked seldom: an answer takes the server as long as some twenty jobs.
    while (done := finished(server) - before) < jobs:
        server.check()
        left = (jobs - done) / max(done, jobs / 10) * (time.monotonic() - begun)
        time.sleep(min(0.5, max(0.02, left / 4)))
    return done / (time.monotonic() - begun)


def _rate(server: DemoServer) -> float:
    """The rate at which jobs finish while so many are queued that there is always one."""
    before, begun = finished(server), time.monotonic()
    time.sleep(WINDOW)
    server.check()
    return (finished(server) - before) / (time.monotonic() - begun)


def _warm(server: DemoServer) -> None:
    """The first pilot is there, and the server has done everything before, as on every day but its first."""
    _whole(server, WARMING)


def submit(server: DemoServer, jobs: int, cores: int = 1) -> None:
    """Tasks of empty payloads, many in a call."""
    tasks = [
        {"name": f"bench-{number}", "jobs": min(JOBS_PER_TASK, jobs - start), "cores": cores}
        for number, start in enumerate(range(0, jobs, JOBS_PER_TASK))
    ]
    for start in range(0, len(tasks), 100):
        server.post("/tasks", {"tasks": tasks[start : start + 100]})


def counts(server: DemoServer) -> dict[str, int]:
    """Jobs by state."""
    shares = server.get("/shares")["shares"]
    return {state: sum(share["jobs"].get(state, 0) for share in shares) for state in _STATES}


_STATES = ("defined", "pending", "activated", "sent", "running", "finished")


def finished(server: DemoServer) -> int:
    """Jobs that have finished."""
    return counts(server)["finished"]
