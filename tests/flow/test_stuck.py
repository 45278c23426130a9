"""What is stuck in a real store is told with its reason, and usual times come from the store's own past."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.calls.administration.servers import failing_loops
from pilotage.flow.calls.work import stuck
from pilotage.flow.outside.membership import this_process
from pilotage.flow.runtime import Runtime
from pilotage.flow.steps import STEPS
from pilotage.model.records.servers import LoopPass, ServerActivity
from pilotage.model.records.states import JobState, TransferState
from pilotage.model.rules.stuck import EXPECTED
from pilotage.store import Store
from pilotage.testing.records import NOW
from pilotage.testing.stores import (
    FEDERATION,
    WITHOUT_INPUTS,
    create,
    decision,
    move,
    new_jobs,
    new_pilot,
    new_task,
    new_transfer,
)

LATER = NOW + 3 * 3600.0


@pytest.fixture
def runtime(store: Store) -> Iterator[Runtime]:
    """A runtime three hours later, on both databases."""
    store.save_federation(FEDERATION, "test")
    made = Runtime(store, STEPS, load=load, movers=InstalledMovers, clock=lambda: LATER)
    yield made
    made.close()


def _live(store: Store, task: int, count: int, took: float) -> None:
    """Bring jobs to their end, so many seconds in each state."""
    ids = new_jobs(store, task, count)
    for step, (source, target) in enumerate(pairwise(WITHOUT_INPUTS), 1):
        changes = {"queue": "CERN-q"} if target is JobState.ACTIVATED else {}
        store.commit(decision(move("job", ids, source, target, changes), time=NOW + step * took), "test")


def test_jobs_transfers_and_pilots_are_stuck_with_reason_and_command(runtime: Runtime) -> None:
    store = runtime.store
    task = new_task(store)
    ids = new_jobs(store, task, 3)
    placed = move("job", ids[:2], JobState.DEFINED, JobState.ACTIVATED, {"queue": "CERN-q"})
    store.commit(decision(placed), "test")
    (transfer,) = create(store, new_transfer("x:a"))
    moving = move("transfer", [transfer], TransferState.QUEUED, TransferState.PREPARING)
    store.commit(decision(moving), "test")
    pilot = new_pilot(store)
    found = {(one.kind, one.state): one for one in stuck.everything(runtime)}
    assert set(found) == {
        *(("job", "activated"), ("job", "defined"), ("task", "registered")),
        *(("transfer", "preparing"), ("pilot", "created")),
    }
    at_queue = found["job", "activated"]
    assert at_queue.what == "2 jobs activated at CERN-q, expected within 2 h"
    assert (at_queue.count, at_queue.place) == (2, "CERN-q")
    assert "no pilot of CERN-q has ever called home" in at_queue.remark.text
    assert at_queue.remark.command == "pilotage queues test CERN-q"
    assert at_queue.remark.subject == f"job:{ids[0]}"
    assert found["transfer", "preparing"].remark.command == f"pilotage explain transfer:{transfer}"
    assert found["pilot", "created"].remark.subject == f"pilot:{pilot}"
    assert found["task", "registered"].remark.text == "it is not split into jobs"
    assert found["task", "registered"].what == "1 task registered in share default, expected within 10 min"


def test_usual_times_come_from_the_newest_jobs_that_ended(runtime: Runtime) -> None:
    store = runtime.store
    task = new_task(store)
    slow = EXPECTED["job", JobState.ACTIVATED].floor
    _live(store, task, 20, slow)
    past = store.stuck_queries.past()
    took = [one.seconds for one in past if one.state is JobState.ACTIVATED]
    assert took == [slow] * 20
    assert {one.place for one in past if one.kind == "job"} == {"CERN-q"}
    placed = move("job", new_jobs(store, task, 1), JobState.DEFINED, JobState.ACTIVATED, {"queue": "CERN-q"})
    store.commit(decision(placed), "test")
    assert [one for one in stuck.everything(runtime) if one.kind == "job"] == [], "3 h are usual here"


def test_loops_that_fail_on_any_live_server_or_run_on_none_are_stuck(runtime: Runtime) -> None:
    passes: dict[str, LoopPass] = {"stage": LoopPass(ended=LATER, seconds=0.1, error="KeyError: 'x'")}
    loops = tuple(step.name for step in STEPS if step.has_loop and step.name != "clean")
    for name, told in (("one", {}), ("two", passes), ("gone", passes)):
        server = this_process(runtime.store, name, loops)
        runtime.store.servers.join(replace(server, report=ServerActivity(passes=told)))
    runtime.store.servers.leave("gone", LATER)
    runtime.set_aside.failing_loops["broker"] = "TypeError"
    found = {one.name: one for one in failing_loops(runtime)}
    assert set(found) == {"broker", "clean", "stage"}
    assert found["broker"].servers == ("this server",)
    assert found["clean"].servers == ()
    assert [name.partition(" on ")[0] for name in found["stage"].servers] == ["two"]
    shown = [one for one in stuck.everything(runtime) if one.kind == "loop"]
    assert [one.what for one in shown] == [
        "loop broker fails on 1 server",
        "no server has loop clean",
        "loop stage fails on 1 server",
    ]
    assert shown[1].remark.command == "pilotage up --no-api --only clean"
    assert shown[2].remark.text.endswith(": KeyError: 'x'")
