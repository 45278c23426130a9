"""Logs through the API: what pilots may send of them, and who may read them."""

import base64
import zlib
from typing import Any

import pytest
from fastapi.testclient import TestClient

from .conftest import BOB, OTHER_ALICE, House, Submit

OFFER = {"cores": 10, "memory": 2000, "walltime": 5000, "max_jobs": 10}
POINTS = [[1.0, 0.5, 50.0, 0.0, 1.5, 0.0, 0.0]]


def log(text: bytes = b"hello", stream: str = "stdout", **fields: Any) -> dict[str, Any]:
    data = base64.b64encode(zlib.compress(text)).decode()
    return {"stream": stream, "size": len(text), "head": len(text), "data": data} | fields


def logs(job: int, *streams: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"job": job, "attempt": 1, "logs": streams} | fields


@pytest.fixture
def running(house: House, submit: Submit) -> tuple[int, int, TestClient]:
    """A job that runs, its pilot, and the client of that one."""
    (job,) = house.activate(submit())
    pilot, client = house.pilot()
    client.post("/pilot/match", json=OFFER)
    report(client, reports=[{"job": job, "attempt": 1, "state": "running"}], holding=[[job, 1]])
    return job, pilot, client


def report(client: TestClient, **body: Any) -> Any:
    answer = client.post("/pilot/report", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_failed_is_there_to_be_read_by_its_owner_and_operators_alone(
    house: House, alice: TestClient, operator: TestClient, running: tuple[int, int, TestClient]
) -> None:
    job, _, pilot = running
    failed = {"job": job, "attempt": 1, "state": "failed", "error": "it failed"}
    report(pilot, reports=[failed], logs=[logs(job, log(), log(b"wrong", "stderr"), points=POINTS)])
    document = alice.get(f"/jobs/{job}/logs").json()
    assert document.pop("logs") == [
        {
            "stream": stream,
            "time": house.now,
            "size": 5,
            "parts": [{"start": 0, "end": 5, "text": text}],
        }
        for stream, text in (("stderr", "wrong"), ("stdout", "hello"))
    ]
    assert document == {"attempt": 1, "attempts": [1], "runs": False, "points": POINTS, "node": None}
    assert operator.get(f"/jobs/{job}/logs").json()["attempts"] == [1]
    lines = alice.get(f"/jobs/{job}/explain").json()["lines"]
    assert any(line.startswith("  attempt 1 over 1 s") for line in lines)
    for stranger in (BOB, OTHER_ALICE):
        assert house.as_("user", stranger).get(f"/jobs/{job}/logs").status_code == 404
    assert pilot.get(f"/jobs/{job}/logs").status_code == 403


def test_a_pilot_is_asked_for_what_somebody_reads(
    house: House, alice: TestClient, running: tuple[int, int, TestClient]
) -> None:
    job, _, pilot = running
    quiet = {"stop": [], "read": [], "read_own": False, "heartbeat": 3.0, "time": house.now}
    assert report(pilot, holding=[[job, 1]]) == quiet
    document = alice.get(f"/jobs/{job}/logs").json()
    assert (document["runs"], document["attempt"], document["logs"]) == (True, 1, [])
    house.now += 2
    assert report(pilot, holding=[[job, 1]])["read"] == [[job, 1]]
    report(pilot, holding=[[job, 1]], logs=[logs(job, log(b"first"))])
    report(pilot, holding=[[job, 1]], logs=[logs(job, log(b"first, then more"))])
    seen = alice.get(f"/jobs/{job}/logs", params={"stdout_seen": 5}).json()["logs"][0]
    assert seen["parts"] == [{"start": 5, "end": 16, "text": ", then more"}]
    house.now += 100
    assert report(pilot, holding=[[job, 1]])["read"] == []


def test_a_character_that_comes_in_two_is_shown_once_whole(
    alice: TestClient, running: tuple[int, int, TestClient]
) -> None:
    job, _, pilot = running
    told = "für".encode()

    def parts(seen: int) -> list[tuple[int, int, str]]:
        document = alice.get(f"/jobs/{job}/logs", params={"stdout_seen": seen}).json()
        return [tuple(part.values()) for part in document["logs"][0]["parts"]]

    report(pilot, holding=[[job, 1]], logs=[logs(job, log(told[:2]))])
    assert (parts(0), parts(1)) == ([(0, 1, "f")], [])
    report(pilot, holding=[[job, 1]], logs=[logs(job, log(told))])
    assert parts(1) == [(1, 4, "ür")]
    failed = {"job": job, "attempt": 1, "state": "failed", "error": "it failed"}
    report(pilot, reports=[failed], logs=[logs(job, log(told[:2]))])
    assert parts(0) == [(0, 2, "f\N{REPLACEMENT CHARACTER}")]


def test_what_is_left_out_of_a_long_stream_is_told(
    alice: TestClient, running: tuple[int, int, TestClient]
) -> None:
    job, _, pilot = running
    report(pilot, holding=[[job, 1]], logs=[logs(job, log(b"begin" + b"end", head=5, size=1000))])

    def parts(seen: int) -> list[tuple[int, int, str]]:
        document = alice.get(f"/jobs/{job}/logs", params={"stdout_seen": seen}).json()
        return [tuple(part.values()) for part in document["logs"][0]["parts"]]

    assert parts(0) == [(0, 5, "begin"), (997, 1000, "end")]
    assert parts(3) == [(3, 5, "in"), (997, 1000, "end")]
    assert parts(500) == [(997, 1000, "end")]
    assert parts(999) == [(999, 1000, "d")]
    assert parts(1000) == []


def test_a_pilot_writes_no_logs_but_its_own(
    house: House, alice: TestClient, running: tuple[int, int, TestClient]
) -> None:
    job, _, pilot = running
    _, another = house.pilot()
    report(another, logs=[logs(job, log(b"forged"))])
    report(pilot, holding=[[job, 1]], logs=[logs(job, log(b"of the next attempt"), attempt=2)])
    report(pilot, holding=[[job, 1]], logs=[logs(job, log(b"of its agent", "agent"))])
    assert alice.get(f"/jobs/{job}/logs").json()["attempts"] == []


def test_an_agents_log_is_for_operators(
    house: House, alice: TestClient, operator: TestClient, running: tuple[int, int, TestClient]
) -> None:
    job, number, pilot = running
    assert alice.get(f"/pilots/{number}/logs").status_code == 403
    assert operator.get("/pilots/999/logs").status_code == 404
    assert operator.get(f"/pilots/{number}/logs").json()["runs"] is True
    house.now += 2
    pilot.post("/pilot/match", json=OFFER | {"found": {"cores": 2, "gpus": ["GPU-a"]}})
    assert report(pilot, holding=[[job, 1]])["read_own"] is True
    report(pilot, holding=[[job, 1]], own_log=log(b"begins", "agent"))
    ended = pilot.post("/pilot/end", json={"reason": "idle", "own_log": log(b"begins, ends", "agent")})
    assert ended.status_code == 204
    document = operator.get(f"/pilots/{number}/logs", params={"agent_seen": 6}).json()
    assert document["runs"] is False
    assert document["node"]["gpus"] == ["GPU-a"]
    assert document["logs"][0]["parts"] == [{"start": 6, "end": 12, "text": ", ends"}]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (log(b"x" * 65_537, head=9), "at most 65536 bytes"),
        (log(data=base64.b64encode(zlib.compress(bytes(2_000_000))).decode()), "at most 65536 bytes"),
        (log(data="no base64!"), "not base64"),
        (log(data="aGVsbG8="), "not compressed by zlib"),
        (log(data=base64.b64encode(zlib.compress(b"a")[:-1]).decode()), "not one stream"),
        (log(data=base64.b64encode(zlib.compress(b"a") * 2).decode()), "not one stream"),
        (log(data="A" * 100_000), "data"),
        (log(size=4), "do not hold"),
        (log(head=6, size=9), "do not hold"),
        (log(size=-1), "size"),
        (log(stream="usage"), "stream"),
    ],
)
def test_what_is_no_log_is_refused(
    alice: TestClient, running: tuple[int, int, TestClient], wrong: dict[str, Any], fault: str
) -> None:
    job, _, pilot = running
    answer = pilot.post("/pilot/report", json={"holding": [[job, 1]], "logs": [logs(job, wrong)]})
    assert answer.status_code == 422
    assert fault in answer.text


@pytest.mark.parametrize("points", [POINTS * 61, [[1.0]], [[-1.0] * 7], [["NaN"] * 7], [[1e300] * 7]])
def test_what_is_no_time_line_is_refused(running: tuple[int, int, TestClient], points: Any) -> None:
    job, _, pilot = running
    body = {"holding": [[job, 1]], "logs": [logs(job, points=points)]}
    assert pilot.post("/pilot/report", json=body).status_code == 422
