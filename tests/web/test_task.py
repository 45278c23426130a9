"""One task and its jobs on the page, and what people do there."""

import re
import zlib

import pytest
from sqlalchemy import update

from pilotage.model.documents.decision import Move
from pilotage.model.records.logs import KeptLog, LogKey
from pilotage.model.records.states import JobState
from pilotage.store.tasks.table import tasks
from tests.api.conftest import ALICE, BOB, House
from tests.api.test_explanations import brokered

from .conftest import PageHouse, Submit, TestClient

TABS = ("", "/jobs", "/data", "/log", "/use")
EVIL = "payload exited with code 3\n<script>alert('err')</script>"


def fail(house: House, task: int) -> int:
    """Let the first job of a task fail with markup in its error and its log."""
    jobs = house.activate(task)
    for source, target in ((JobState.ACTIVATED, JobState.SENT), (JobState.SENT, JobState.RUNNING)):
        house.commit(Move(kind="job", ids=jobs, source=source, target=target, cause="test"))
    changes: dict[str, int | float | str | bool | None] = {
        "error": EVIL,
        "exit_code": 3,
        "wall_seconds": 7200.0,
        "cpu_seconds": 3600.0,
    }
    house.commit(
        Move(
            kind="job",
            ids=jobs[:1],
            source=JobState.RUNNING,
            target=JobState.FAILED,
            cause="failed",
            changes=changes,
        )
    )
    text = b"first line\n<script>alert('log')</script>\n"
    key = LogKey(kind="job", record=jobs[0], attempt=1)
    log = KeptLog(key=key, stream="stderr", size=len(text), head=len(text), data=zlib.compress(text))
    house.store.logs.put([(log, ALICE)], house.now)
    return jobs[0]


def token_of(page: str) -> str:
    found = re.search(r'name="form_token" value="(\w+)"', page)
    assert found
    return found[1]


def test_each_tab_shows_a_task_and_nothing_of_it_to_others(
    house: House, pages: PageHouse, alice: TestClient, submit: Submit
) -> None:
    task = submit(name="mine", jobs=3, scouts=0)
    job = fail(house, task)
    bob = pages.signed_in("user", BOB)
    for tab in TABS:
        answer = alice.get(f"/tasks/{task}{tab}")
        assert answer.status_code == 200, answer.text
        assert "<bdi>mine</bdi>" in answer.text
        assert "<script>alert" not in answer.text
        part = alice.get(f"/tasks/{task}{tab}", headers={"HX-Request": "true"}).text
        assert part.strip().startswith('<div id="live"')
        assert bob.get(f"/tasks/{task}{tab}").status_code == 404
    for tab in ("", "/log", "/files"):
        answer = alice.get(f"/jobs/{job}{tab}")
        assert answer.status_code == 200, answer.text
        assert "<script>alert" not in answer.text
        assert bob.get(f"/jobs/{job}{tab}").status_code == 404
    for path in (f"tasks/{task}/cancel", f"tasks/{task}/retry", f"jobs/{job}/retry", f"tasks/{task}/set"):
        assert bob.get(f"/{path}").status_code == 404
        sent = {"form_token": token_of(bob.get("/tasks").text)}
        assert bob.post(f"/{path}", data=sent).status_code == 404


def test_json_and_command_of_each_view_exist(house: House, alice: TestClient, submit: Submit) -> None:
    task = submit(jobs=2, scouts=0)
    job = fail(house, task)
    addresses = [f"/tasks/{task}{tab}" for tab in TABS] + [
        f"/jobs/{job}{tab}" for tab in ("", "/log", "/files")
    ]
    for address in (*addresses, "/tasks", f"/tasks/{task}/jobs?sort=run&failed=true&state=failed"):
        text = alice.get(address).text
        found = re.search(r'href="(/as-json/[^"]*)"', text)
        assert found, address
        document = alice.get(found[1].replace("&amp;", "&"))
        assert document.status_code == 200, (address, document.text)
        assert "as command: <code>pilotage " in text


def test_a_failure_leads_to_its_log_and_to_a_retry(house: House, alice: TestClient, submit: Submit) -> None:
    task = submit(jobs=2, scouts=0)
    job = fail(house, task)
    jobs = alice.get(f"/tasks/{task}/jobs").text
    assert "&lt;script&gt;alert(&#39;err&#39;)" in jobs
    link = re.search(r'href="(/jobs/\d+/log)"', jobs)
    assert link
    assert "&lt;script&gt;alert(&#39;log&#39;)" in alice.get(link[1]).text
    page = alice.get(f"/jobs/{job}/retry").text
    assert "1 job will run again: 1 failed." in page
    assert house.job(job).state is JobState.FAILED, "the page only says what would happen"
    done = alice.post(f"/jobs/{job}/retry", data={"form_token": token_of(page), "anyway": "yes"})
    assert (done.status_code, done.headers["location"]) == (303, f"/jobs/{job}?done=retry&jobs=1")
    assert house.job(job).state is not JobState.FAILED
    assert "Retried. Jobs: 1." in alice.get(done.headers["location"]).text


def test_what_if_leads_to_a_change(house: House, alice: TestClient, submit: Submit) -> None:
    task = submit(jobs=2, scouts=0, ram=4000)
    house.split()
    asked = alice.get(f"/tasks/{task}?memory=1000").text
    assert "memory 1000 instead of 4000" in asked
    assert f"pilotage explain {task} --what-if memory=1000" in asked
    link = re.search(r'href="(/tasks/\d+/set\?[^"]*)"', asked)
    assert link
    page = alice.get(link[1]).text
    assert "2 jobs will change" in page
    sent = {"form_token": token_of(page), "memory": "1000", "anyway": "yes"}
    done = alice.post(f"/tasks/{task}/set", data=sent)
    assert done.status_code == 303, done.text
    assert house.store.queries.task(task).changes  # type: ignore[union-attr]
    for wrong in ("memory=-1", "memory=nan", "memory=x", "cores=1.5"):
        assert alice.get(f"/tasks/{task}?{wrong}").status_code == 422


def test_the_last_decision_counts_the_queues_that_fit(
    house: House, alice: TestClient, submit: Submit
) -> None:
    task = brokered(house, submit, jobs=2, scouts=0)
    fits = len(house.store.queries.task_choices(task, 1)[0].candidates.queues)
    assert f"The last decision: {fits} of 2 queues can take them" in alice.get(f"/tasks/{task}").text


@pytest.mark.parametrize(("verb", "word"), [("hold", "Held"), ("finish", "Ended"), ("cancel", "Cancelled")])
def test_a_verb_says_what_it_does_and_then_does_it(
    house: House, alice: TestClient, submit: Submit, verb: str, word: str
) -> None:
    task = submit(jobs=2, scouts=0)
    house.split()
    page = alice.get(f"/tasks/{task}/{verb}").text
    assert "2 " in page
    assert alice.post(f"/tasks/{task}/{verb}", data={"form_token": "x"}).status_code == 403
    done = alice.post(f"/tasks/{task}/{verb}", data={"form_token": token_of(page)})
    if verb == "finish":
        assert done.status_code == 409, "no job has ended well"
        return
    assert done.status_code == 303
    assert word in alice.get(done.headers["location"]).text
    if verb == "hold":
        page = alice.get(f"/tasks/{task}/release").text
        assert alice.post(f"/tasks/{task}/release", data={"form_token": token_of(page)}).status_code == 303


def test_only_operators_lift(alice: TestClient, operator: TestClient) -> None:
    assert alice.get("/breakers/lift?name=north-queue").status_code == 403
    assert (
        alice.post("/breakers/lift", data={"form_token": token_of(alice.get("/tasks").text)}).status_code
        == 403
    )
    for kind in ("", "&kind=queue", "&kind=list-match"):
        page = operator.get(f"/breakers/lift?name=north-queue{kind}")
        assert "nothing rests at north-queue" in page.text
    sent = {"form_token": token_of(operator.get("/tasks").text), "name": "nothing"}
    assert operator.post("/breakers/lift", data=sent).status_code == 404


@pytest.mark.parametrize(
    ("word", "address"),
    [
        ("12", "/tasks/12"),
        ("job:7", "/jobs/7"),
        ("align", "/tasks?name=%2Aalign%2A"),
        ("9" * 30, "/tasks?name="),
    ],
)
def test_the_field_finds_tasks_and_jobs(alice: TestClient, word: str, address: str) -> None:
    assert alice.get("/find", params={"for": word}).headers["location"].startswith(address)


def test_numbers_that_no_record_has_are_not_found(alice: TestClient) -> None:
    for path in (f"/tasks/{2**70}", "/tasks/0", f"/jobs/{10**30}", "/tasks/x", "/jobs/1/x"):
        assert alice.get(path).status_code == 404


def test_the_first_page_answers_only_what_is_true(house: House, alice: TestClient, submit: Submit) -> None:
    empty = alice.get("/").text
    assert "No task is under way" in empty
    for question in ("Why does work wait?", "What is failing?", "What is paused?", "Where is my data?"):
        assert question not in empty
    waiting = submit(name="in-line", jobs=2, scouts=0)
    house.activate(waiting)
    fail(house, submit(name="broken", jobs=1, scouts=0))
    page = alice.get("/").text
    assert "2 of 2 waiting jobs wait for a free pilot." in page
    assert "&lt;script&gt;alert(&#39;err&#39;)" in page
    assert re.search(r'href="/jobs/\d+/log"', page)


def test_the_first_page_shows_nobody_the_work_of_others(
    house: House, pages: PageHouse, operator: TestClient, submit: Submit
) -> None:
    fail(house, submit(name="broken", jobs=1, scouts=0))
    assert "broken" not in pages.signed_in("user", BOB).get("/").text
    assert "broken" in operator.get("/").text


def test_a_task_that_cannot_be_read_is_named_and_stays_listed(
    house: House, alice: TestClient, submit: Submit
) -> None:
    task = submit(name="from-the-future")
    damage = update(tasks).where(tasks.c.id == task).values(spec='{"name": 7}')
    house.store.database.write(lambda connection: connection.execute(damage))
    house.runtime.store.queries._specs._cache.clear()
    for path in (f"/tasks/{task}", f"/tasks/{task}/jobs", f"/tasks/{task}/cancel"):
        answer = alice.get(path)
        assert (answer.status_code, f"task {task} cannot be read" in answer.text) == (409, True), path
    assert house.as_("user", ALICE).get(f"/tasks/{task}").status_code == 409
    assert "from-the-future" in alice.get("/tasks").text
    assert alice.get("/").status_code == 200
