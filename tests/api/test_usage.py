"""Use over the API: one's own, or everybody's for an operator, by any dimensions."""

from dataclasses import replace

from starlette.testclient import TestClient

from pilotage.model.documents.decision import Move
from pilotage.model.records.data import File
from pilotage.model.records.states import JobState as J

from .conftest import BOB, NOW, House, Submit, submit_to


def run(house: House, task: int, seconds: float, target: J = J.HOLDING, written: int = 0) -> None:
    """Let the jobs of a task run for so many seconds, and each write so many bytes."""
    jobs = house.activate(task)
    for source, to in ((J.ACTIVATED, J.SENT), (J.SENT, J.RUNNING), (J.RUNNING, target)):
        changes = {"wall_seconds": seconds} if source is J.RUNNING else {}
        files = {
            job: (File(name=f"out:{job}", size=written, checksum="adler32:00000001", task=task, job=job),)
            for job in jobs
            if written and source is J.RUNNING
        }
        move = Move(kind="job", ids=jobs, source=source, target=to, cause="test", changes=changes)
        house.commit(replace(move, creates=files))
    house.store.add_measurements()


def test_users_see_their_own_use_and_operators_everybodys(
    house: House, alice: TestClient, operator: TestClient, submit: Submit
) -> None:
    run(house, submit(jobs=2), 60)
    run(house, submit_to(house.as_("user", BOB), jobs=1), 30, J.CANCELLED)
    told = alice.get("/usage?by=task,person").json()
    assert told["by"] == ["person", "task"]
    assert [(row["person"], row["group"], row["attempts"], row["core_seconds"]) for row in told["rows"]] == [
        ("alice", "", 2, 120.0)
    ]
    rows = operator.get("/usage?by=cause&by=person").json()["rows"]
    assert [(row["person"], row["attempts"]) for row in rows] == [("alice", 2), ("bob", 1)]
    (lost,) = operator.get("/usage").json()["lost"]
    assert (lost["cause"], lost["culprit"], lost["lost_seconds"]) == ("cancelled", "", 30.0)
    assert operator.get("/usage?mine=true").json()["total"]["attempts"] == 0
    limited = operator.get("/usage?by=person&limit=1").json()
    assert (len(limited["rows"]), limited["left_out"]) == (1, 1)


def test_bad_queries_for_use_are_refused(alice: TestClient) -> None:
    def status(query: str) -> int:
        return int(alice.get(f"/usage?{query}").status_code)

    for query in ("by=colour", "by=day,", "by=", "limit=0", "limit=10001", "since=-1", "until=1e12"):
        assert status(query) == 422, query
    assert status(f"since={NOW}&until={NOW - 1}") == 422
    assert "is after until" in alice.get(f"/usage?since={NOW}&until={NOW - 1}").text
    assert status("by=day,day") == 200


def test_operators_read_ended_attempts_in_pages_that_repeat_none(
    house: House, alice: TestClient, operator: TestClient, submit: Submit
) -> None:
    task = submit(jobs=3, cores=2)
    run(house, task, 60)
    first = operator.get("/attempts?limit=2").json()
    (last,) = operator.get(f"/attempts?after={first['next']}").json()["attempts"]
    assert (len(first["attempts"]), first["more"], first["forgotten"]) == (2, True, 0)
    assert (last["task"], last["person"], last["vo"], last["site"]) == (task, "alice", "atlas", "north")
    assert (last["cores"], last["seconds"], last["outcome"], last["core_power"]) == (
        2,
        60.0,
        "finished",
        10.0,
    )
    assert len({one["job"] for one in (*first["attempts"], last)}) == 3
    assert operator.get(f"/attempts?since={NOW + 1}").json()["attempts"] == []
    assert operator.get(f"/attempts?after={last['id']}").json()["next"] == last["id"]
    assert alice.get("/attempts").status_code == 403
    assert operator.get(f"/attempts?since={NOW}&until={NOW - 1}").status_code == 422
