"""A sweep over 5,000 parameters, as a person meets it: the seconds of commands while the server is idle."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from zlib import adler32

from pilotage.demo import service
from pilotage.demo.service import DemoServer
from pilotage.federation.documents import read_tasks
from pilotage.model.documents.decision import Creation
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import File, NewJob, NewTask, Replica
from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import output_name
from pilotage.model.values.scopes import identifier, personal_scope
from pilotage.store import Store
from pilotage.testing.stores import bring, create, move, moved

from . import house

ROWS = 5_000
OWNER = Identity(name="bench", vo="bench")
TASK = """
name: sweep
command: [sh, -c, "echo $PILOTAGE_PARAMETER_n,$PILOTAGE_PARAMETER_x > result.csv"]
parameters: rows.csv
outputs: [result.csv]
merge: { command: [sh, -c, "cat $(cat inputs.txt) > all.csv"], outputs: [all.csv] }
"""
TEXT = b"1,value 1\n"


def figures(databases: tuple[house.Database, ...] = ("sqlite", "postgresql")) -> dict[str, float]:
    """``sweep_5000_COMMAND_s``, with ``_postgresql`` there: each command once a sweep has finished.

    ``submit`` submits another one. ``fetch`` brings the merged file, ``fetch_all`` all 5,001, and
    ``fetch_again`` finds all of them there. ``help`` is what any command takes.
    """
    found: dict[str, float] = {}
    for database in databases:
        suffix = "" if database == "sqlite" else f"_{database}"
        with tempfile.TemporaryDirectory(prefix="pilotage-bench-") as folder:
            place = Path(folder)
            place.chmod(0o755)
            with house.store(database, place) as url:
                _fill(url, place)
                federation = place / "federation.yaml"
                federation.write_text(house.FEDERATION.format(place=place, slots=40))
                # The other loops would run the sweep that is submitted.
                only = ("--only", "watch")
                with service.running(federation, place / "home", None, url, *only) as server:
                    measured = _measured(server, place)
        found |= {f"sweep_{ROWS}_{key}_s{suffix}": value for key, value in measured.items()}
    return found


def _fill(url: str, place: Path) -> None:
    """Put a sweep into the store, with all jobs finished and their outputs on the disk."""
    (place / "task.yaml").write_text(TASK)
    (place / "rows.csv").write_text("n,x\n" + "".join(f"{n},value {n}\n" for n in range(ROWS)))
    (spec,) = read_tasks(place / "task.yaml")
    store = Store.open(url)
    (task,) = create(store, NewTask(spec=spec, owner=OWNER))
    job = NewJob(task=task, kind="normal", share="default", priority=500, requirements="[]")
    jobs = [replace(job, index=index) for index in range(ROWS)]
    kinds = [*(one.kind for one in jobs), "merge"]
    ids = create(store, *jobs, replace(job, kind="merge"))
    bring(store, ids, JobState.FINISHED)
    for source, target in (
        (TaskState.REGISTERED, TaskState.RUNNING),
        (TaskState.RUNNING, TaskState.FINISHED),
    ):
        moved(store, move("task", [task], source, target))
    records: list[Creation] = []
    checksum = f"adler32:{adler32(TEXT):08x}"
    for id_, kind in zip(ids, kinds, strict=True):
        name = output_name("bench", task, id_, "all.csv" if kind == "merge" else "result.csv")
        path = place / "disk" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(TEXT)
        file = identifier(personal_scope(OWNER), name)
        records.append(File(name=file, size=len(TEXT), checksum=checksum, task=task, job=id_))
        records.append(Replica(file=file, storage="disk"))
    create(store, *records)
    store.close()


def _measured(server: DemoServer, place: Path) -> dict[str, float]:
    commands: dict[str, tuple[str, ...]] = {
        "help": ("--help",),
        "status": ("status", "1"),
        "jobs": ("jobs", "1"),
        "explain": ("explain", "job:77"),
        "fetch": ("fetch", "1", "--merged", "--to", "merged"),
        "fetch_all": ("fetch", "1", "--to", "all"),
        "fetch_again": ("fetch", "1", "--to", "all"),
        "submit": ("submit", "task.yaml"),
    }
    for words in commands["status"], commands["jobs"]:
        _seconds(server, place, *words)  # as on every day but the server's first
    return {key: _seconds(server, place, *words) for key, words in commands.items()}


def _seconds(server: DemoServer, place: Path, *words: str) -> float:
    """Run a command as a process, from its start to its end."""
    environment = {**os.environ, "PILOTAGE_URL": server.url, "PILOTAGE_TOKEN": server.token}
    begun = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "pilotage.cli", *words],
        env=environment,
        cwd=place,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - begun
