"""A pilot's way through the API: match, report, end."""

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pilotage.model.records.federation import ComputingElement

from .conftest import House, Submit

OFFER = {"cores": 10, "memory": 2000, "walltime": 5000, "max_jobs": 10}


def report(job: int, state: str, **fields: Any) -> dict[str, Any]:
    return {"job": job, "attempt": 1, "state": state, **fields}


def test_the_answer_to_a_match_is_all_that_an_agent_needs(house: House, submit: Submit) -> None:
    task = submit(command=["echo", "hello"], environment={"A": "b"}, outputs=["out.txt"], jobs=2)
    jobs = house.activate(task)
    _, pilot = house.pilot()
    answer = pilot.post("/pilot/match", json=OFFER).json()
    assert {"lease", "heartbeat", "idle"} < set(answer)
    (work,) = answer["works"]
    assert work.pop("storage_url").endswith("/north")
    assert work == {
        "task": task,
        "kind": "normal",
        "command": ["echo", "hello"],
        "environment": {"PILOTAGE_SITE": "north", "PILOTAGE_STATION": "north", "A": "b"},
        "payload_files": False,
        "cores": 1,
        "memory": 0,
        "memory_limit": 0,
        "walltime": 0,
        "workdir": 0,
        "outputs": ["out.txt"],
        "optional_outputs": [],
        "strict_processes": False,
        "mounts": {},
        "stdin": "",
        "secrets": [],
        "storage_options": {},
        "asks": False,
        "contained": True,
        "readable": [],
        "writable": [],
        "gpus": 0,
        "images": [],
        "sources": {},
        "lease": 4320,
        "first_lease": 1080,
        "jobs": [
            {
                "job": job,
                "attempt": 1,
                "scratch": f".scratch/small/{job}.1",
                "inputs": [],
                "stdin": "",
                "environment": {
                    "PILOTAGE_INDEX": str(index),
                    "PILOTAGE_SEED": str(1 + task * 100_000 + index),
                    "PILOTAGE_FIRST_EVENT": str(index),
                    "PILOTAGE_JOBS": "2",
                },
            }
            for index, job in enumerate(jobs)
        ],
    }
    assert pilot.post("/pilot/match", json=OFFER).json()["works"] == []


def at_north(house: House, **element: Any) -> None:
    """Put a federation in force whose first queue has this computing element."""
    known = house.store.federation()
    queue = replace(known.queues[0], computing_element=ComputingElement(**element))
    house.store.save_federation(replace(known, queues=(queue, *known.queues[1:])), "test")


@pytest.mark.parametrize("told", [{"containment": "landlock-files"}, {"containment": "none"}, {}])
def test_a_queue_that_insists_on_contained_payloads_refuses_pilots_without(
    house: House, submit: Submit, told: dict[str, str]
) -> None:
    at_north(house, containment="required")
    (job,) = house.activate(submit())
    id_, pilot = house.pilot()
    pilot.post("/pilot/report", json={})
    answer = pilot.post("/pilot/match", json=OFFER | told)
    assert answer.status_code == 403
    assert "queue north-queue insists on contained payloads, and this pilot " in answer.json()["detail"]
    (refused,) = house.store.queries.pilots(None, None, 10)
    assert (refused.id, refused.state, refused.heartbeat) == (id_, "failed", None)
    assert refused.error == answer.json()["detail"]
    assert house.job(job).state == "activated"


@pytest.mark.parametrize(
    ("element", "shown", "contained"),
    [
        ({"containment": "required"}, "namespaces", True),
        ({"readable_paths": ("/software",), "writable_paths": ("/scratch",)}, "namespaces", True),
        ({"containment": "off"}, "off", False),
    ],
)
def test_operators_see_how_each_pilot_contains_payloads(
    house: House, submit: Submit, operator: TestClient, element: dict[str, Any], shown: str, contained: bool
) -> None:
    at_north(house, **element)
    house.activate(submit())
    _, pilot = house.pilot()
    (work,) = pilot.post("/pilot/match", json=OFFER | {"containment": "namespaces"}).json()["works"]
    assert work["contained"] is contained
    assert work["readable"] == [*element.get("readable_paths", ())]
    assert work["writable"] == [*element.get("writable_paths", ())]
    (seen,) = operator.get("/pilots").json()["pilots"]
    assert seen["containment"] == shown


def test_no_more_jobs_are_handed_out_than_asked_for(house: House, submit: Submit) -> None:
    house.activate(submit(jobs=3))
    _, pilot = house.pilot()

    def matched() -> int:
        works = pilot.post("/pilot/match", json={**OFFER, "max_jobs": 2}).json()["works"]
        return sum(len(work["jobs"]) for work in works)

    assert [matched(), matched(), matched()] == [2, 1, 0]


def test_a_job_goes_its_way_by_reports(house: House, submit: Submit) -> None:
    (job,) = house.activate(submit())
    _, pilot = house.pilot()
    pilot.post("/pilot/match", json=OFFER)
    house.now += 5
    body = {"holding": [[job, 1]], "reports": [report(job, "starting"), report(job, "running")]}
    assert pilot.post("/pilot/report", json=body).json()["stop"] == []
    done = report(job, "done", exit_code=0, cpu_seconds=1.5, wall_seconds=2, max_rss=30)
    assert pilot.post("/pilot/report", json={"reports": [done]}).json()["stop"] == []
    found = house.job(job)
    assert (found.state, found.exit_code, found.cpu_seconds) == ("finished", 0, 1.5)


def test_a_report_that_comes_late_costs_no_attempt(house: House, submit: Submit) -> None:
    (job,) = house.activate(submit())
    _, pilot = house.pilot()
    known = str(pilot.post("/pilot/report", json={}).json()["time"])
    house.now += 1
    heard = str(pilot.post("/pilot/match", json=OFFER).json()["time"])
    assert [float(known), float(heard)] == [house.now - 1, house.now]
    running = {"holding": [[job, 1]], "reports": [report(job, "running")]}
    pilot.post("/pilot/report", json=running, headers={"Pilotage-Heard": heard})
    house.now += 1000
    for late in (known, heard):
        pilot.post("/pilot/report", json={}, headers={"Pilotage-Heard": late})
    assert (house.job(job).state, house.job(job).attempt) == ("running", 1)
    wrong = pilot.post("/pilot/report", json={}, headers={"Pilotage-Heard": "nan"})
    assert (wrong.status_code, wrong.json()["detail"][0]["field"]) == (422, "Pilotage-Heard")
    pilot.post("/pilot/report", json={}, headers={"Pilotage-Heard": str(house.now)})
    assert house.job(job).attempt == 2


def test_faults_of_reports_name_their_fields(house: House) -> None:
    _, pilot = house.pilot()
    answer = pilot.post("/pilot/report", json={"reports": [report(1, "sleeping")]})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["field"] == "reports.0.state"


def test_an_error_may_hold_any_character(house: House, submit: Submit) -> None:
    (job,) = house.activate(submit(max_attempts=1))
    _, pilot = house.pilot()
    pilot.post("/pilot/match", json=OFFER)
    failed = report(job, "failed", error="half a \x00 word")
    assert pilot.post("/pilot/report", json={"reports": [failed]}).status_code == 200
    assert house.job(job).error == "half a  word"


def test_who_ended_is_gone(house: House, submit: Submit) -> None:
    house.activate(submit())
    _, pilot = house.pilot()
    assert pilot.post("/pilot/report", json={}).status_code == 200
    ended = pilot.post("/pilot/end", json={"reason": "idle"})
    assert (ended.status_code, ended.content) == (204, b"")
    for path, body in (("match", OFFER), ("report", {}), ("end", {"reason": "again"})):
        answer = pilot.post(f"/pilot/{path}", json=body)
        assert answer.status_code == 410
        assert "gave up this pilot" in answer.json()["detail"]
    house.now += 60
    assert pilot.post("/pilot/match", json=OFFER).status_code == 401


@pytest.mark.parametrize(
    "wrong", [{"cores": -1}, {"memory": "much"}, {"max_jobs": 0}, {"walltime": 1e400}, {"more": 1}]
)
def test_an_offer_that_makes_no_sense_is_refused(house: House, wrong: dict[str, Any]) -> None:
    _, pilot = house.pilot()
    import json

    answer = pilot.post(
        "/pilot/match", content=json.dumps(OFFER | wrong), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["field"] == next(iter(wrong))
