"""Pilots, transfers and shares on the page: what operators see, and what others see of it."""

import re
from typing import Any

import pytest

from pilotage.model.documents.decision import Create, Move
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import NewTransfer
from pilotage.store import ShareSample
from tests.api.conftest import ALICE, OTHER_ALICE, House

from .conftest import PageHouse, Submit, TestClient


@pytest.fixture
def transfer(house: House) -> int:
    """A queued transfer of a file of the VO atlas."""
    new = NewTransfer(
        file="atlas:data<b>.txt",
        source="north-disk",
        destination="south-disk",
        direction="download",
        share="atlas-download",
        priority=25,
    )
    house.commit(Create(records=(new,), cause="needed"))
    return house.store.queries.transfers(None, 1)[0].id


def test_json_and_command_of_each_view_exist(house: House, operator: TestClient, transfer: int) -> None:
    pilot, _ = house.pilot()
    addresses = (
        "/pilots",
        "/pilots?state=submitted&queue=north-queue&empty=true",
        f"/pilots/{pilot}",
        "/transfers",
        "/transfers?state=queued",
        f"/transfers/{transfer}",
        "/shares",
        "/shares?days=30",
        "/failures",
        "/use",
        "/use?by=task&days=30",
        "/stuck",
    )
    for address in addresses:
        answer = operator.get(address)
        assert answer.status_code == 200, answer.text
        found = re.search(r'href="(/as-json/[^"]*)"', answer.text)
        assert found, address
        assert operator.get(found[1].replace("&amp;", "&")).status_code == 200, address
        assert "as command: <code>pilotage " in answer.text
        part = operator.get(address, headers={"HX-Request": "true"}).text
        assert part.strip().startswith('<div id="live"'), address


def test_lists_of_pilots_and_transfers_are_for_operators(
    house: House, pages: PageHouse, alice: TestClient, transfer: int
) -> None:
    pilot, _ = house.pilot()
    for address in ("/pilots", f"/pilots/{pilot}", "/transfers", "/stuck"):
        assert alice.get(address).status_code == 403, address
        assert f'href="{address}"' not in alice.get("/tasks").text
    assert alice.get(f"/transfers/{transfer}").status_code == 200
    stranger = pages.signed_in("user", OTHER_ALICE)
    assert stranger.get(f"/transfers/{transfer}").status_code == 404


def test_pilots_are_filtered_and_one_tells_its_life(house: House, operator: TestClient) -> None:
    first, client = house.pilot("north-queue")
    second, _ = house.pilot("south-queue")
    client.post("/pilot/report", json={})

    def listed(query: str) -> list[int]:
        return [
            int(one) for one in re.findall(r'href="/pilots/(\d+)"', operator.get(f"/pilots?{query}").text)
        ]

    assert listed("") == [second, first]
    assert listed("state=submitted") == [second]
    assert listed("queue=north-queue") == [first]
    assert listed("empty=true") == []
    assert operator.get("/pilots?state=lost").status_code == 422
    assert operator.get("/pilots/999").status_code == 404
    assert "It got 0 jobs." in operator.get(f"/pilots/{first}").text
    failed = Move(
        kind="pilot",
        ids=(second,),
        source=PilotState.SUBMITTED,
        target=PilotState.FAILED,
        cause="failed",
        changes={"error": "<script>no</script>"},
    )
    house.commit(failed)
    text = operator.get("/pilots").text + operator.get(f"/pilots/{second}").text
    assert "&lt;script&gt;no" in text
    assert "<script>no" not in text


def test_transfers_show_who_holds_slots(operator: TestClient, transfer: int) -> None:
    text = operator.get("/transfers").text
    assert re.search(r'queued <span class="n">1<', text)
    assert "atlas:data&lt;b&gt;.txt" in text
    assert "Slots for preparing" in text
    assert "0 held, 0 of them in emergency" in text
    assert "atlas:data&lt;b&gt;.txt" in operator.get(f"/transfers/{transfer}").text
    assert "atlas:data" not in operator.get("/transfers?state=done").text


def test_shares_show_use_next_to_target(house: House, alice: TestClient, submit: Submit) -> None:
    assert "Nothing runs now." in alice.get("/shares").text
    jobs = house.activate(submit(jobs=2, scouts=0))
    for source, target in ((JobState.ACTIVATED, JobState.SENT), (JobState.SENT, JobState.RUNNING)):
        house.commit(Move(kind="job", ids=jobs, source=source, target=target, cause="test"))
    text = alice.get("/shares").text
    assert "<bdi>default</bdi> has 100 % of 2 running jobs" in text
    assert "2 running" in text


def test_what_is_stuck_is_named_on_the_first_page_and_leads_to_why(
    house: House, operator: TestClient, alice: TestClient, transfer: int
) -> None:
    assert "Nothing is stuck." in operator.get("/stuck").text
    house.now += 6 * 3600
    assert "1 transfer queued at south-disk" in operator.get("/").text
    text = operator.get("/stuck").text
    assert f'href="/transfers/{transfer}"' in text
    assert f"pilotage explain transfer:{transfer}" in text
    assert "What is stuck?" not in alice.get("/").text


def test_the_use_of_shares_over_time_is_drawn_with_its_numbers(
    house: House, operator: TestClient, alice: TestClient
) -> None:
    assert "Nothing ran in the last 7 days" in alice.get("/shares").text
    for hour, used in ((0, 0.5), (1, 0.7), (40, 0.0)):
        sample = ShareSample(share="users<b>", running=10, used=used, target=0.25)
        house.store.past.add_sample([sample], house.now - 3600 * hour)
    text = alice.get("/shares").text
    assert "<bdi>users&lt;b&gt;</bdi> used 40 % of what ran in the last 7 days; its target is 25 %." in text
    assert text.count('class="trend"') == 1
    assert len(re.findall("M", re.findall(r'class="value" d="([^"]*)"', text)[0])) == 2, "a gap"
    assert operator.get("/shares?days=31").status_code == 422
    told = alice.get("/as-json/shares/history?days=1").json()["shares"]
    assert [(one["share"], round(one["used"], 3), len(one["spans"])) for one in told] == [
        ("users<b>", 0.6, 2)
    ]


def test_failures_by_day_are_ones_own_and_an_operators_everybodys(
    house: House, operator: TestClient, alice: TestClient, submit: Submit
) -> None:
    assert "No attempt of a job failed in the last 7 days." in alice.get("/failures").text
    for owner, error in ((ALICE, "disk 7 <b>full"), (OTHER_ALICE, "no license")):
        jobs = house.activate(submit(owner, jobs=2, scouts=0))
        fails = Move(
            kind="job",
            ids=jobs,
            source=JobState.ACTIVATED,
            target=JobState.FAILED,
            cause="test",
            changes={"error": error},
        )
        house.commit(fails)
    house.store.add_measurements()
    text = alice.get("/failures").text
    assert "2 attempts of jobs failed." in text
    assert " &lt;b&gt;full" in text
    assert "disk #" not in text
    assert "no license" not in text + alice.get("/as-json/failures").text
    assert "4 attempts of jobs failed." in operator.get("/failures?days=1").text
    told = operator.get("/as-json/failures?days=30").json()
    assert {one["error"] for one in told["failures"]} == {"disk # <b>full", "no license"}
    assert [many for _, many in told["days"]] == [4]


def test_use_is_ones_own_and_says_why_core_time_was_lost(
    house: House, operator: TestClient, alice: TestClient, submit: Submit
) -> None:
    assert "No attempt of a job ended in the last 7 days." in alice.get("/use").text
    for owner, name in ((ALICE, "align"), (OTHER_ALICE, "theirs")):
        good, bad = house.activate(submit(owner, name=name, jobs=2, scouts=0, cores=4))
        ends: list[tuple[int, JobState, dict[str, Any]]] = [
            (good, JobState.HOLDING, {"wall_seconds": 3600.0, "cpu_seconds": 7200.0}),
            (bad, JobState.FAILED, {"wall_seconds": 1800.0, "exit_code": 1, "error": "killed"}),
        ]
        for job, target, changes in ends:
            for source, to in ((JobState.ACTIVATED, JobState.SENT), (JobState.SENT, JobState.RUNNING)):
                house.commit(Move(kind="job", ids=(job,), source=source, target=to, cause="test"))
            running = JobState.RUNNING
            house.commit(
                Move(kind="job", ids=(job,), source=running, target=target, cause="test", changes=changes)
            )
    house.store.add_measurements()
    text = alice.get("/use").text
    assert "6.0 h of core time in 2 attempts, efficiency 33%. Lost: 2.0 h (33%)." in text
    assert "its payload left an output out, or a bad one" in text
    assert "align" in alice.get("/use?by=task").text
    assert "theirs" not in alice.get("/use?by=task").text
    assert "theirs" in operator.get("/use?by=task").text
    assert 'href="/queues/north-queue"' in alice.get("/use?by=queue").text
