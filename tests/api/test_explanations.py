"""Stored decisions, analysed and as text."""

from itertools import pairwise
from typing import Any

from pilotage.flow import planning
from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.documents.decision import Create, Move
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import NewPilot
from pilotage.store import SetAsideRecord
from pilotage.testing.records import file
from pilotage.testing.stores import create, new_transfer
from tests.reading import BROKERED, world_of

from .conftest import ALICE, OTHER_ALICE, House, Submit

OFFER = {"cores": 10, "memory": 2000, "walltime": 5000, "max_jobs": 10}


def brokered(house: House, submit: Submit, **spec: Any) -> int:
    task: int = submit(**spec)
    house.split()
    world = world_of(house.store, BROKERED, house.now, 1, limit=100)
    house.store.commit(planning.plan("broker", world), "broker:production")
    return task


def test_a_task_is_explained_with_its_analysis_and_in_lines(house: House, submit: Submit) -> None:
    task = brokered(house, submit, jobs=2)
    alice = house.as_("user", ALICE)
    found = alice.get(f"/tasks/{task}/explain").json()
    assert found["task"]["id"] == task
    assert [one["placed"] for one in found["explanations"]] == [one["placed"] for one in found["choices"]]
    assert found["lines"][0] == "2 jobs wait for a free pilot at north-queue"
    assert found["lines"][1].startswith(f"task {task}, jobs ")
    narrow = alice.get(f"/tasks/{task}/explain", params={"width": 60}).json()["lines"]
    assert all(len(line) <= 60 for line in narrow)
    assert " ".join(narrow).split() == " ".join(found["lines"]).split()


def test_a_job_is_explained_with_what_happened_to_it(house: House, submit: Submit) -> None:
    task = brokered(house, submit, jobs=1)
    alice = house.as_("user", ALICE)
    (job,) = alice.get(f"/tasks/{task}/jobs").json()["jobs"]
    found = alice.get(f"/jobs/{job['id']}/explain").json()
    assert (
        found["lines"][0] == f"job {job['id']} of task {task}: waiting for a slot at north-queue, attempt 1"
    )
    assert found["lines"][1] == "  index 0"
    assert " defined: " in found["lines"][2]
    assert found["job"]["id"] == job["id"]
    assert len(found["explanations"]) == len(found["choices"]) == 1


def test_a_job_that_ended_well_still_says_why_an_attempt_of_it_had_failed(
    house: House, submit: Submit
) -> None:
    task = submit(command=["true"])
    (job,) = house.activate(task)
    _, pilot = house.pilot()
    ways: list[dict[str, Any]] = [
        {
            "state": "failed",
            "kind": "payload",
            "error": "payload exited with code 3\nbad value 17",
            "exit_code": 3,
            "wall_seconds": 12,
        },
        {"state": "done", "exit_code": 0},
    ]
    for attempt, way in enumerate(ways, start=1):
        pilot.post("/pilot/match", json=OFFER).raise_for_status()
        for told in ({"state": "starting"}, {"state": "running"}, way):
            report = {"job": job, "attempt": attempt, **told}
            pilot.post("/pilot/report", json={"reports": [report]}).raise_for_status()
        if attempt < len(ways):
            assert house.activate(task) == (job,)
    alice = house.as_("user", ALICE)
    found = alice.get(f"/jobs/{job}/explain").json()
    (failed,) = found["job"]["failed_attempts"]
    assert (found["job"]["state"], found["job"]["error"], failed["attempt"]) == ("finished", "", 1)
    why = "its payload ended with an error, or by a signal, exit code 3, bad value 17"
    line = f"attempt 1 failed at north-queue, node {failed['node']}, after 12 s: {why}"
    assert f"  {line}" in found["lines"]


def test_a_task_that_no_brokerage_has_seen_is_said_to_be_one(house: House, submit: Submit) -> None:
    task = submit(jobs=1)
    lines = house.as_("user", ALICE).get(f"/tasks/{task}/explain").json()["lines"]
    undecided = f"task {task} is waiting for a queue: no brokerage has decided about it yet"
    assert lines == ["it waits to be split into jobs", undecided]


def failed(house: House, task: int) -> None:
    """Every job of a task fails for good."""
    pilot, _ = house.pilot()
    for job in house.as_("user", ALICE).get(f"/tasks/{task}/jobs").json()["jobs"]:
        house.commit(
            Move(
                kind="job",
                ids=(job["id"],),
                source=JobState.ACTIVATED,
                target=JobState.FAILED,
                cause="test",
                changes={"pilot": pilot, "error": "payload exited with code 3\nOSError: no", "exit_code": 3},
            )
        )


def test_the_explanation_of_a_failed_task_begins_with_its_failure(house: House, submit: Submit) -> None:
    task = brokered(house, submit, jobs=2)
    failed(house, task)
    take(step("finish"), house.runtime, house.runtime.begin(100))
    lines = house.as_("user", ALICE).get(f"/tasks/{task}/explain").json()["lines"]
    assert lines[0].startswith(f"task {task} work failed: 2 of 2 jobs failed")
    assert lines[1].startswith("  2 jobs failed at north-queue, exit code 3 (jobs ")
    assert lines[2:4] == ["    payload exited with code 3", "    OSError: no"]
    assert lines[4].startswith(f"task {task}, jobs ")


def refused_pilots(house: House) -> None:
    new = NewPilot(
        queue="north-queue", requirements="[]", kind="generic", owner=ALICE, cores=1, memory=0, walltime=60
    )
    house.commit(Create(records=(new,), cause="test"))
    (pilot,) = house.store.queries.pilots(None, "north-queue", 1)
    house.commit(
        Move(
            kind="pilot",
            ids=(pilot.id,),
            source=PilotState.CREATED,
            target=PilotState.FAILED,
            cause="test",
            changes={"error": "not submitted: sbatch: invalid account"},
        )
    )


TROUBLE = (
    "no pilot of north-queue has ever called home, and the last one failed: not submitted: sbatch: invalid"
)


def test_a_task_whose_jobs_wait_where_nothing_starts_says_so_wherever_one_looks(
    house: House, submit: Submit
) -> None:
    task = brokered(house, submit, jobs=2)
    alice = house.as_("user", ALICE)
    assert [one["kind"] for one in alice.get(f"/tasks/{task}").json()["remarks"]] == ["wait"]
    refused_pilots(house)
    fault, *_ = alice.get(f"/tasks/{task}").json()["remarks"]
    assert (fault["kind"], fault["subject"], fault["mend"]) == ("fault", "queue:north-queue", "operator")
    assert fault["text"].startswith(f"nothing starts: {TROUBLE}")
    assert fault["text"].endswith("an operator can mend it")
    assert alice.get(f"/tasks/{task}/explain").json()["lines"][0] == fault["text"]
    lines = alice.get("/queues/north-queue/explain").json()["lines"]
    assert lines[1] == f"  {fault['text']}"
    (stuck,) = house.as_("operator", ALICE).get("/stuck").json()["stuck"]
    assert stuck["remark"] == fault, "no two surfaces say something else"
    assert "  one pilot tests it in 1 min, if jobs wait by then" in lines
    both = alice.get(f"/tasks/{task}/queues/north-queue/explain").json()["lines"]
    assert both[: len(lines)] == lines
    assert "  it can take them, place 1 of 1: it got 2 jobs" in both
    assert house.as_("user", OTHER_ALICE).get(f"/tasks/{task}/queues/north-queue/explain").status_code == 404
    assert alice.get("/queues/nowhere/explain").status_code == 404


def a_pilot_that_worked(house: House) -> None:
    new = NewPilot(
        queue="north-queue", requirements="[]", kind="generic", owner=ALICE, cores=1, memory=0, walltime=60
    )
    house.commit(Create(records=(new,), cause="test"))
    (pilot,) = house.store.queries.pilots(None, "north-queue", 1)
    way = (PilotState.CREATED, PilotState.SUBMITTED, PilotState.RUNNING, PilotState.FINISHED)
    for source, target in pairwise(way):
        changes = {"heartbeat": house.now} if target is PilotState.RUNNING else {}
        moved = Move(
            kind="pilot", ids=(pilot.id,), source=source, target=target, cause="test", changes=changes
        )
        house.commit(moved)


def test_failures_before_a_pilot_that_worked_and_ended_are_over(house: House, submit: Submit) -> None:
    brokered(house, submit, jobs=1)
    alice = house.as_("user", ALICE)
    refused_pilots(house)
    a_pilot_that_worked(house)
    told = alice.get("/queues/north-queue/explain").json()["lines"]
    assert not [line for line in told if "nothing starts" in line or "invalid account" in line]


def test_submissions_and_plans_warn_where_nothing_can_start(house: House) -> None:
    alice = house.as_("user", ALICE)
    body = {"tasks": [{"name": "t", "command": ["true"], "jobs": 2, "scouts": 0, "queues": ["north-queue"]}]}
    assert alice.post("/tasks", json=body).json()["warnings"] == []
    refused_pilots(house)
    warnings = alice.post("/tasks", json=body).json()["warnings"]
    assert [one for one in warnings if one.startswith(f"nothing starts: {TROUBLE}")]
    house.now += 61
    (task,) = alice.post("/plan/broker", json=body).json()["tasks"]
    assert task["lines"][0].startswith(f"warning: nothing starts: {TROUBLE}")


def test_a_list_of_transfers_says_which_are_set_aside_and_why(house: House) -> None:
    made = create(house.store, file("s:f"), new_transfer("s:f", destination="north-disk"))[1]
    told: Any = {
        "step": "stage",
        "error": "ValueError: no",
        "among": 1,
        "since": 1.0,
        "times": 1,
        "retry_at": 2.0,
    }
    house.store.set_aside.replace((), [SetAsideRecord(subject="transfer", name=str(made), **told)])
    (one,) = house.as_("operator", ALICE).get("/transfers").json()["transfers"]
    assert one["error"] == "set aside by step stage: ValueError: no"
