"""The jobs of a task as its owner sees them: lists, failures, and excerpts of logs."""

import zlib

import pytest
from starlette.testclient import TestClient

from pilotage.model.documents.decision import Move
from pilotage.model.records.logs import KeptLog, LogKey
from pilotage.model.records.states import JobState
from pilotage.server.api.work.log_excerpts import LONGEST_LINE, excerpt, matching
from pilotage.store import StoredLog

from .conftest import ALICE, BOB, NOW, House, Submit


def fail(house: House, jobs: tuple[int, ...], error: str = "boom") -> None:
    house.commit(
        Move(
            kind="job",
            ids=jobs,
            source=JobState.ACTIVATED,
            target=JobState.FAILED,
            cause="test",
            changes={"error": error, "exit_code": 3},
        )
    )


def write(house: House, job: int, text: str, stream: str = "stderr", attempt: int = 1) -> None:
    key = LogKey(kind="job", record=job, attempt=attempt)
    data = text.encode()
    log = KeptLog(key=key, stream=stream, size=len(data), head=len(data), data=zlib.compress(data))  # type: ignore[arg-type]
    house.store.logs.put([(log, ALICE)], NOW)


def test_failed_jobs_are_listed_and_grouped(house: House, alice: TestClient, submit: Submit) -> None:
    task = submit(jobs=5, scouts=0)
    jobs = house.activate(task)
    fail(house, jobs[:2])
    found = alice.get(f"/tasks/{task}/jobs", params={"failed": True}).json()["jobs"]
    assert [job["id"] for job in found] == list(jobs[:2])
    assert found[0]["reason"] == "boom"
    document = alice.get(f"/tasks/{task}/failures").json()
    assert document["left_out"] == 0
    assert [(one["error"], one["queue"], one["failed"]) for one in document["groups"]] == [
        ("boom", "north-queue", 2)
    ]
    page = alice.get(f"/tasks/{task}/jobs", params={"sort": "state", "limit": 3}).json()
    assert (page["total"], page["counts"]) == (5, {"activated": 3, "failed": 2})
    rest = alice.get(f"/tasks/{task}/jobs", params={"sort": "state", "after": page["next"]}).json()
    assert ([job["id"] for job in rest["jobs"]], rest["next"]) == (list(jobs[:2]), "")


def test_lists_have_parameters_on_request_alone(house: House, alice: TestClient, submit: Submit) -> None:
    task = submit(command=["run", "{k}"], parameters={"k": [1, 2]}, scouts=0)
    house.activate(task)
    jobs = alice.get(f"/tasks/{task}/jobs").json()["jobs"]
    assert [job["parameters"] for job in jobs] == [{}, {}]
    asked = alice.get(f"/tasks/{task}/jobs", params={"parameters": True}).json()["jobs"]
    assert [job["parameters"] for job in asked] == [{"k": "1"}, {"k": "2"}]
    assert alice.get(f"/tasks/{task}/outputs", params={"parameters": True}).json()["files"] == []


def test_logs_of_failed_jobs_come_in_pages_with_the_latest_attempt_alone(
    house: House, alice: TestClient, submit: Submit
) -> None:
    task = submit(jobs=5, scouts=0)
    jobs = house.activate(task)
    fail(house, jobs[:3])
    for job in jobs:
        write(house, job, f"early {job}\n")
        write(house, job, f"late {job}\n", attempt=2)
    first = alice.get(f"/tasks/{task}/logs", params={"failed": True, "limit": 2}).json()
    assert [one["job"]["id"] for one in first["jobs"]] == list(jobs[:2])
    assert [(one["attempt"], one["logs"][0]["head"]) for one in first["jobs"]] == [
        (2, [f"late {job}"]) for job in jobs[:2]
    ]
    params = {"failed": True, "limit": 2, "after": first["next"]}
    rest = alice.get(f"/tasks/{task}/logs", params=params).json()
    assert ([one["job"]["id"] for one in rest["jobs"]], rest["next"]) == ([jobs[2]], "")


def test_lines_with_a_text_are_found_in_all_jobs(house: House, alice: TestClient, submit: Submit) -> None:
    task = submit(jobs=3, scouts=0)
    jobs = house.activate(task)
    write(house, jobs[1], "fine\nKeyError: a\nfine\nKeyError: b\n")
    write(house, jobs[2], "fine\n", "stdout")
    document = alice.get(f"/tasks/{task}/logs", params={"match": "KeyError", "lines": 1}).json()
    (found,) = document["jobs"]
    assert (found["job"]["id"], found["logs"][0]["head"], found["logs"][0]["left_out"]) == (
        jobs[1],
        ["KeyError: a"],
        1,
    )


@pytest.mark.parametrize("what", ["jobs", "failures", "logs"])
def test_only_the_owner_sees_them(house: House, submit: Submit, what: str) -> None:
    task = submit()
    assert house.as_("user", BOB).get(f"/tasks/{task}/{what}").status_code == 404


def test_requests_beyond_the_bounds_are_refused(alice: TestClient, submit: Submit) -> None:
    task = submit()
    for params in ({"limit": 101}, {"lines": 201}, {"match": "x" * 201}, {"after": -1}):
        assert alice.get(f"/tasks/{task}/logs", params=params).status_code == 422, params
    for params in ({"sort": "colour"}, {"limit": 10_001}, {"after": "x"}):
        assert alice.get(f"/tasks/{task}/jobs", params=params).status_code == 422, params


def log(data: bytes, size: int = 0, head: int = 0) -> StoredLog:
    return StoredLog(stream="stdout", time=0, size=size or len(data), head=head or len(data), data=data)


def test_an_excerpt_has_head_and_tail_and_says_what_is_between() -> None:
    whole = log(b"".join(b"%d\n" % number for number in range(10)))
    short = excerpt(whole, 5)
    assert (list(short.head), list(short.tail), short.left_out) == ([*map(str, range(10))], [], 0)
    cut = excerpt(whole, 2)
    assert (list(cut.head), list(cut.tail), cut.left_out, cut.lost) == (["0", "1"], ["8", "9"], 6, 0)
    lost = excerpt(log(b"a\nb\ny\nz\n", size=1008, head=4), 1)
    assert (list(lost.head), list(lost.tail), lost.left_out, lost.lost) == (["a"], ["z"], 2, 1000)


def test_long_lines_are_bounded_around_the_text() -> None:
    line = b"x" * 5000 + b"KeyError" + b"y" * 5000
    (found,) = matching(log(line), "KeyError", 5).head
    assert "KeyError" in found
    assert len(found) <= LONGEST_LINE + 6
    assert len(excerpt(log(line), 5).head[0]) == LONGEST_LINE
