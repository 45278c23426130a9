"""Loops of different processes wake each other: real servers on one PostgreSQL, with periods of an hour."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.calls.work.submit import submit
from pilotage.flow.loops.wakeup_relay import WakeupRelay
from pilotage.flow.loops.wakeups import Wakeups
from pilotage.flow.runtime import Runtime
from pilotage.flow.steps import STEPS
from pilotage.model.records.federation import ComputingElement, LoopConstants
from pilotage.model.records.states import JobState
from pilotage.model.records.work import TaskSpec
from pilotage.store import Store
from tests.waiting import PATIENCE, wait_for

from .house import ALICE, federation

HOUR = LoopConstants(period=3600)
_LISTENERS = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"


@contextmanager
def server(url: str, home: Path, *loops: str) -> Iterator[None]:
    """A process with some of the loops."""
    home.mkdir()
    environment = os.environ | {"PILOTAGE_HOME": str(home), "PILOTAGE_STORE": url}
    command = [sys.executable, "-m", "pilotage.cli", "up", "--no-api", "--only", ",".join(loops)]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0, (home / "log").read_text()


def listeners(store: Store) -> list[int]:
    """The database's processes that serve a connection which listens."""
    return store.database.read(lambda connection: list(connection.execute(text(_LISTENERS)).scalars()))


def all_activated(store: Store, task: int) -> bool:
    """Tell whether a task has jobs, and each of them a queue."""
    found = store.queries.task(task)
    assert found is not None
    return {state for state, count in found.jobs.items() if count} == {JobState.ACTIVATED}


def end_listeners(store: Store) -> None:
    """Break every connection that listens, as a database does that is started again."""
    for pid in listeners(store):
        with store.database.engine.begin() as connection:
            connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})


@pytest.mark.endurance
@pytest.mark.slow
def test_a_task_passes_from_process_to_process_though_no_period_ends(
    postgresql_url: str, tmp_path: Path
) -> None:
    store = Store.open(postgresql_url)
    declared = federation(tmp_path)
    queue = replace(declared.queues[0], computing_element=ComputingElement())
    store.save_federation(replace(declared, loops=HOUR, queues=(queue,)), "test")
    runtime = Runtime(store, (), load=load, movers=InstalledMovers)
    relay = WakeupRelay(store, runtime.wakeups, STEPS)
    relay.start()
    try:
        with (
            server(postgresql_url, tmp_path / "one", "split"),
            server(postgresql_url, tmp_path / "two", "broker"),
        ):
            for _ in range(2):
                wait_for(lambda: len(listeners(store)) == 3, "every process listens")
                outcome = submit(runtime, [TaskSpec(name="t", scouts=0)], ALICE)
                ((_, task),) = outcome.tasks
                assert task is not None
                placed = partial(all_activated, store, task)
                wait_for(placed, "one splits, two brokers")
                end_listeners(store)
    finally:
        relay.stop()
        store.close()


def test_what_another_process_commits_wakes_the_steps_here(postgresql_url: str, tmp_path: Path) -> None:
    here, there = Store.open(postgresql_url), Store.open(postgresql_url)
    there.save_federation(federation(tmp_path), "test")
    wakeups, others = Wakeups(STEPS), Wakeups(STEPS)
    heard = threading.Event()
    relays = [WakeupRelay(here, wakeups, STEPS, heard.set), WakeupRelay(there, others, STEPS)]
    for relay in relays:
        relay.start()
    try:
        wait_for(lambda: len(listeners(here)) == 2, "both listen")
        # Asking forgets the wake-up: each is asked for by itself, until it has come.
        for step in STEPS:
            for woken in (wakeups, others):
                wait_for(partial(woken.is_woken, step.name), f"{step.name} looks once")
        runtime = Runtime(there, (), load=load, movers=InstalledMovers)
        submit(runtime, [TaskSpec(name="t", scouts=0)], ALICE)
        wait_for(lambda: wakeups.is_woken("split"), "split is woken")
        assert heard.is_set()
        assert not wakeups.is_woken("finish")
        # What a process commits itself comes back to it, and wakes nothing.
        assert not others.is_woken("split")
    finally:
        for relay in relays:
            relay.stop()
        here.close()
        there.close()


def test_a_store_without_notices_is_left_to_the_periods(sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    relay = WakeupRelay(store, Wakeups(STEPS), STEPS)
    relay.start()
    assert store.listeners == []
    relay.stop()
    store.close()
