"""The whole world is written while it is read: its jobs never are in memory together."""

import subprocess
import sys
from collections.abc import Sequence

from sqlalchemy import Connection, text

from pilotage.model.documents.serialization import json_pieces, to_json
from pilotage.model.records.states import JobState as J
from pilotage.model.values.identity import Identity
from pilotage.store import Store
from pilotage.testing import NOW
from pilotage.testing.stores import FEDERATION, decision, move, new_jobs, new_pilot, new_task

JOBS = 40_000
GROWTH = 16
"""MiB by which the process may grow for these jobs: together they would take 70."""

MEASURED = """
import resource, sys
from pilotage.server.api.places.world_process import main
main()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
"""
MORE = """
WITH RECURSIVE n (id) AS (SELECT 2 UNION ALL SELECT id + 1 FROM n WHERE id < :jobs)
INSERT INTO jobs SELECT n.id, {columns} FROM n, jobs WHERE jobs.id = 1"""


def filled(store: Store) -> Sequence[int]:
    """Jobs of every kind that a world has: waiting, at pilots, merging, and failed ones of a live task."""
    store.save_federation(FEDERATION, "tester")
    task, pilot = new_task(store), new_pilot(store)
    new_task(store, owner=Identity(name="bob", vo="cms"), scouts=2, jobs=4)
    waiting, held, failed = (new_jobs(store, task, count) for count in (3, 2, 2))
    merging = new_jobs(store, task, 1, kind="merge")
    store.commit(decision(move("job", [*waiting, *held], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"})), "b")
    store.commit(decision(move("job", held, J.ACTIVATED, J.SENT, {"pilot": pilot})), "m")
    store.commit(decision(move("job", merging, J.DEFINED, J.PENDING)), "b")
    store.commit(decision(move("job", failed, J.DEFINED, J.FAILED, {"error": "broken"})), "w")
    return [*waiting, *held, *failed, *merging]


def test_the_pieces_of_a_world_are_its_document(store: Store) -> None:
    jobs = filled(store)
    world = store.snapshots.whole(NOW + 5, 7)
    assert [job.id for job in world.jobs] == jobs
    assert [job.id for job in world.jobs if job.skipped_since] == jobs[-1:]
    pieces = store.snapshots.use_whole(NOW + 5, 7, lambda read: b"".join(json_pieces(read)))
    assert pieces == to_json(world)


def _measured(url: str) -> tuple[int, float]:
    """Return the bytes of the world, and the most MiB of the process that wrote it."""
    command = [sys.executable, "-c", MEASURED, repr(NOW), "7"]
    done = subprocess.run(command, input=url.encode(), capture_output=True, check=True, timeout=300)
    return len(done.stdout), float(done.stderr.split()[-1])


def _many(connection: Connection) -> None:
    names = [row.name for row in connection.execute(text("PRAGMA table_info(jobs)")) if row.name != "id"]
    columns = ", ".join(f'jobs."{name}"' for name in names)
    connection.execute(text(MORE.format(columns=columns)), {"jobs": JOBS})


def test_a_world_with_many_jobs_takes_little_more_memory_than_one_with_few(sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    store.save_federation(FEDERATION, "tester")
    new_jobs(store, new_task(store))
    few, least = _measured(sqlite_url)
    store.database.write(_many)
    store.close()
    many, most = _measured(sqlite_url)
    assert many - few > JOBS * 300
    assert most - least < GROWTH
