"""A submission that is sent twice is one: the answer to the second names the tasks of the first."""

import threading
from pathlib import Path
from typing import Any

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.calls.work import submit
from pilotage.flow.runtime import Runtime
from pilotage.flow.steps import STEPS
from pilotage.model.records.work import TaskSpec
from pilotage.store import Store, TaskPage

from .conftest import ALICE, BOB, House, federation

TASKS = {"tasks": [{"name": "one", "command": ["true"]}, {"name": "two", "command": ["true"]}]}
KEY = {"Idempotency-Key": "5e1f"}


def test_a_repeated_submission_creates_nothing_and_answers_the_same(house: House) -> None:
    alice = house.as_("user", ALICE)
    first = alice.post("/tasks", json=TASKS, headers=KEY)
    second = alice.post("/tasks", json=TASKS, headers=KEY)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert len(alice.get("/tasks").json()["tasks"]) == 2
    assert alice.post("/tasks", json=TASKS).json() != first.json(), "without a key each is one of its own"


def test_a_key_is_its_owners_and_stands_for_one_submission(house: House) -> None:
    alice, bob = house.as_("user", ALICE), house.as_("user", BOB)
    first = alice.post("/tasks", json=TASKS, headers=KEY).json()["tasks"]
    assert bob.post("/tasks", json=TASKS, headers=KEY).json()["tasks"] != first
    others: list[dict[str, Any]] = [{"tasks": TASKS["tasks"][:1]}, {"tasks": TASKS["tasks"][::-1]}]
    for other in others:
        refused = alice.post("/tasks", json=other, headers=KEY)
        assert (refused.status_code, "Idempotency-Key" in refused.text) == (409, True)


def test_a_refused_submission_may_be_mended_under_the_same_key(house: House) -> None:
    alice = house.as_("user", ALICE)
    bad = {"tasks": [{"name": "one", "command": ["true"], "nucleus": "nowhere"}], "whole": True}
    assert alice.post("/tasks", json=bad, headers=KEY).status_code == 422
    assert alice.post("/tasks", json=TASKS, headers=KEY).status_code == 201


def test_of_several_at_the_same_moment_one_creates_the_tasks(store: Store, tmp_path: Path) -> None:
    """On both databases: the commit decides, not the look before it."""
    store.save_federation(federation(tmp_path), "test")
    runtime = Runtime(store, STEPS, load=load, movers=InstalledMovers)
    name = submit.name_of(ALICE, "key")
    specs = [TaskSpec(name=f"t{number}", command=("true",)) for number in range(3)]
    meet = threading.Barrier(4)
    outcomes: list[list[tuple[int, int]]] = []

    def send() -> None:
        meet.wait()
        outcomes.append(sorted(submit.submit(runtime, specs, ALICE, True, name).tasks))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runtime.close()
    assert len(outcomes) == 4
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert len(store.task_lists.page(TaskPage(limit=100))) == 3
