"""Why a pilot exists, what it ran and why it ended; which pilots a waiting job could have (P10, P12)."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from fastapi.testclient import TestClient

from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.documents.decision import Move
from pilotage.model.records.federation import ComputingElement, OwnerCredential
from pilotage.model.records.states import PilotState
from pilotage.testing import requirements

from .conftest import ALICE, House, Submit

OFFER = {"cores": 1, "memory": 2000, "walltime": 86_000, "max_jobs": 1}


def lines(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return "\n".join(answer.json()["lines"])


def test_p10_a_pilots_life_is_told_from_its_making_to_its_end(
    house: House, operator: TestClient, submit: Submit
) -> None:
    (job,) = house.activate(submit(command=["true"]))
    pilot, client = house.pilot()
    assert client.post("/pilot/match", json=OFFER).status_code == 200
    told = lines(operator, f"/pilots/{pilot}/explain")
    assert f"pilot {pilot} at north-queue: running" in told
    assert "created: needed" in told
    assert "got 1 job" in told
    assert f"its jobs: {job} sent" in told
    assert operator.get("/pilots/99/explain").status_code == 404


def test_p9_a_credential_that_cannot_be_used_is_named_with_the_pilots(
    house: House, operator: TestClient, submit: Submit, tmp_path: Path
) -> None:
    known = house.store.federation()
    own = OwnerCredential(vo=ALICE.vo, person=ALICE.name, options={"token_file": str(tmp_path / "none")})
    element = ComputingElement(kind="arc", options={"endpoint": "https://ce.example"}, credentials=(own,))
    queues = (replace(known.queues[0], computing_element=element), *known.queues[1:])
    house.store.save_federation(replace(known, queues=queues), "test")
    assert operator.get("/pilots").json()["problems"] == []
    house.activate(submit(command=["true"]))
    (problem,) = operator.get("/pilots").json()["problems"]
    assert problem.startswith(
        f"{known.queues[0].name}: the credential of {own.name} cannot be used: its token"
    )


def test_p12_pilots_that_ended_without_work_are_listed_and_say_so(
    house: House, operator: TestClient, submit: Submit
) -> None:
    busy, client = house.pilot()
    idle, other = house.pilot()
    house.activate(submit(command=["true"]))
    assert client.post("/pilot/match", json=OFFER).json()["works"]
    for one in (client, other):
        one.post("/pilot/report", json={})
        one.post("/pilot/end", json={"reason": "idle"})
    house.pilot()
    assert [one["id"] for one in operator.get("/pilots?empty=true").json()["pilots"]] == [idle]
    assert "ended without ever having had a job" in lines(operator, f"/pilots/{idle}/explain")
    assert "without ever" not in lines(operator, f"/pilots/{busy}/explain")


def test_p12_breakers_that_opened_after_empty_pilots_are_told_with_them(
    house: House, operator: TestClient
) -> None:
    known = house.store.federation()
    policies: tuple[Literal["taskqueue", "balanced"], ...] = ("taskqueue", "balanced")
    for number, policy in enumerate(policies):
        director = replace(known.director, policy=policy)
        house.store.save_federation(replace(known, director=director), "test")
        _, client = house.pilot()
        client.post("/pilot/report", json={})
        client.post("/pilot/end", json={"reason": "idle"})
        house.now += 1
        (*tripped,) = operator.get("/pilots?empty=true").json()["breakers"]
        assert [one["place"][0] for one in tripped] == ["north-queue"] * number
    assert house.now < tripped[0]["until"] <= house.now + 2 * known.director.empty_pause
    assert operator.get("/pilots?empty=true&queue=other").json()["breakers"] == []
    assert operator.get("/pilots").json()["breakers"] == []


def test_p12_pilots_whose_node_lacks_what_they_were_sent_for_are_listed_and_a_breaker_opens(
    house: House, operator: TestClient, submit: Submit
) -> None:
    known = house.store.federation()
    house.store.save_federation(replace(known, director=replace(known.director, policy="balanced")), "test")
    pilot, client = house.pilot(requirements=requirements(ALICE, gpus=2, container=True))
    house.activate(submit(command=["true"]))
    found = {"gpus": ["GPU-0"], "containers": ["apptainer"], "limited_by": "cgroup v2", "limits": ["memory"]}
    assert client.post("/pilot/match", json=OFFER | {"gpus": 1, "found": found}).json()["works"]
    answer = operator.get("/pilots?empty=true").json()
    assert [(one["id"], one["matched"], one["lacks"]) for one in answer["pilots"]] == [(pilot, 1, "GPUs")]
    assert [one["place"] for one in answer["breakers"]] == [["north-queue", "GPUs"]]
    assert "its node lacks GPUs, which its work needs" in lines(operator, f"/pilots/{pilot}/explain")


def test_e5_a_pilot_that_gets_nothing_is_told_to_stay_as_long_as_a_new_one_would_wait(
    house: House, operator: TestClient, submit: Submit
) -> None:
    pilot, client = house.pilot()
    house.now += 840
    (job,) = house.activate(submit(command=["true"]))
    busy = client.post("/pilot/match", json=OFFER).json()
    assert busy["idle"] == house.store.federation().loops.pilot_idle
    assert "without work" not in lines(operator, f"/pilots/{pilot}/explain")
    client.post("/pilot/report", json={"reports": [{"job": job, "attempt": 1, "state": "done"}]})
    assert client.post("/pilot/match", json=OFFER).json()["idle"] == 840
    told = lines(operator, f"/pilots/{pilot}/explain")
    assert "without work it stays for 840 s: a new one would wait 840 s in the batch system" in told


def test_a_job_that_waits_is_told_which_pilots_could_take_it_and_since_when_they_wait(
    house: House, alice: TestClient, submit: Submit
) -> None:
    (job,) = house.activate(submit(command=["true"], ram=3000))
    none = lines(alice, f"/jobs/{job}/explain")
    assert "could take it: 0 running, 0 in the batch queue, 0 about to be submitted" in none
    waiting, _ = house.pilot()
    house.now += 90
    told = lines(alice, f"/jobs/{job}/explain")
    assert "could take it: 0 running, 1 in the batch queue" in told
    assert f"pilot {waiting} waits since" in told
    assert "90 s" in told
    gone = Move(
        kind="pilot",
        ids=(waiting,),
        source=PilotState.SUBMITTED,
        target=PilotState.CANCELLED,
        cause="waited too long at its site",
    )
    house.commit(gone)
    assert "0 in the batch queue" in lines(alice, f"/jobs/{job}/explain")


def test_p4_a_job_that_waits_behind_anothers_private_pilot_is_told_that_none_can_be_asked_for(
    house: House, alice: TestClient, submit: Submit
) -> None:
    (job,) = house.activate(submit(command=["true"], ram=3000))
    assert "can be requested" not in lines(alice, f"/jobs/{job}/explain")
    federation = house.store.federation()
    (north,) = (queue for queue in federation.queues if queue.name == "north-queue")
    assert north.computing_element is not None
    full = replace(north, computing_element=replace(north.computing_element, max_pilots=1))
    others = tuple(queue for queue in federation.queues if queue is not north)
    house.store.save_federation(replace(federation, queues=(*others, full)), "test")
    house.pilot(owner=replace(ALICE, name="bob"), kind="private")
    told = lines(alice, f"/jobs/{job}/explain")
    assert (
        "no pilot can be requested: north-queue has 1 pilot, 1 of them for their owners' jobs alone" in told
    )
    assert "may have 1 (max_pilots)" in told
    house.now += federation.director.max_pilot_waiting_hours * 3600 + 1
    take(step("watch"), house.runtime, house.runtime.begin(1000))
    assert "can be requested" not in lines(alice, f"/jobs/{job}/explain")


def test_m8_a_job_that_waits_where_a_site_is_throttled_is_told_that_none_can_be_asked_for(
    house: House, alice: TestClient, submit: Submit
) -> None:
    (job,) = house.activate(submit(command=["true"], ram=3000))
    federation = house.store.federation()

    def throttled(**limits: Any) -> str:
        sites = (replace(site, **limits) if site.name == "north" else site for site in federation.sites)
        house.store.save_federation(replace(federation, sites=tuple(sites)), "test")
        return lines(alice, f"/jobs/{job}/explain")

    house.pilot(owner=replace(ALICE, name="bob"), kind="private", site="north")
    assert "the batch system of north has not answered yet" in throttled(max_jobs=2)
    house.ask_sites()
    assert "can be requested" not in throttled(max_jobs=2, max_submitting_jobs=2)
    assert (
        "no pilot can be requested: site north has 1 pilot of ours there and its max_jobs leaves room for 1"
        "; one is requested when one of these has ended" in throttled(max_jobs=1)
    )
    told = throttled(max_submitting_jobs=1)
    assert "site north has 1 pilot of ours in its batch queues" in told
    assert "its max_submitting_jobs or max_pending_jobs leaves room for 1; one is requested" in told
    assert "max_jobs leaves room for 0;" in throttled(max_jobs=0)
