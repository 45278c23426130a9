"""The lines of a day: what ran and finished, of all work, of a site, a person and a task."""

from pilotage.flow.loops.work_samples import WorkRecorder
from pilotage.store import WorkOf, WorkQuarter
from pilotage.store.jobs.work_quarters import KEPT, QUARTER
from tests.api.conftest import ALICE, BOB, House
from tests.page.work import BusyPilot

from .conftest import Submit, TestClient


def test_samples_become_lines_of_whoever_works(
    house: House, alice: TestClient, operator: TestClient, submit: Submit
) -> None:
    assert "The server adds to them every 5 minutes." in alice.get("/sites/north").text
    house.now = (house.now // QUARTER + 1) * QUARTER
    begin = house.now
    recorder = WorkRecorder(house.store)
    recorder.record(house.now)
    task = submit(jobs=4, scouts=0)
    pilot = BusyPilot(house, task)
    for job in pilot.jobs:
        pilot.report(job, "running")
    house.now += 300
    recorder.record(house.now)
    for job in pilot.jobs[:3]:
        pilot.report(job, "done", exit_code=0, wall_seconds=10, cpu_seconds=9)
    house.now += 300
    recorder.record(house.now)

    def read(kind: WorkOf, name: str = "") -> list[WorkQuarter]:
        return house.store.past.work(kind, name, begin)

    expected = [WorkQuarter(time=begin, running=(0 + 4 + 1) / 3, done=3)]
    assert read("all") == read("site", "north") == expected
    assert read("person", ALICE.key) == read("task", str(task)) == expected
    assert read("person", BOB.key) == [WorkQuarter(time=begin, running=0, done=0)]
    for browser, address in ((alice, "/"), (operator, "/sites/north"), (alice, f"/tasks/{task}/use")):
        text = browser.get(address).text
        assert "3 in all" in text, address
        assert '<td class="n" data-l="finished">3</td>' in text
    house.store.past.forget(house.now + KEPT + QUARTER)
    assert read("all") == []


def test_a_recorder_that_begins_counts_no_old_work(house: House, submit: Submit) -> None:
    task = submit(jobs=1, scouts=0)
    pilot = BusyPilot(house, task)
    pilot.report(pilot.jobs[0], "done", exit_code=0, wall_seconds=10, cpu_seconds=9)
    recorder = WorkRecorder(house.store)
    recorder.record(house.now)
    recorder.record(house.now + 300)
    assert [quarter.done for quarter in house.store.past.work("all", "", 0)] in ([0], [0, 0])
