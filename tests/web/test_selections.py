"""Actions on ticked tasks and jobs: first their count, then their effect, and only on the person's own."""

import re

from pilotage.model.records.states import JobState, TaskState
from pilotage.store import JobPage
from tests.api.conftest import ALICE, BOB, House

from .conftest import PageHouse, Submit, TestClient


def hidden(page: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="(.*?)">', page))


def test_a_selection_is_counted_before_it_is_cancelled(
    alice: TestClient, submit: Submit, house: House
) -> None:
    tasks = [submit(name=f"t{number}", jobs=2, scouts=0) for number in range(3)]
    for task in tasks:
        house.activate(task)
    house.as_("user", ALICE).post(f"/tasks/{tasks[2]}/cancel")
    address = "/tasks/selected/cancel?" + "&".join(f"task={task}" for task in tasks)
    page = alice.get(address).text
    assert "4 jobs of 2 tasks will end." in page
    assert f"Nothing happens to 1 of them: task {tasks[2]} t2." in page
    answer = alice.post("/tasks/selected/cancel", data=hidden(page))
    assert answer.headers["location"] == "/tasks?done=cancel"
    states = [house.store.queries.task(task) for task in tasks]
    assert [one.state for one in states if one] == [TaskState.CANCELLED] * 3


def test_only_tasks_that_the_page_counted_are_deleted(
    alice: TestClient, submit: Submit, house: House
) -> None:
    """A task that ends while somebody reads the page stays, with its results."""
    ended, live = submit(name="ended"), submit(name="live")
    house.as_("user", ALICE).post(f"/tasks/{ended}/cancel")
    page = alice.get(f"/tasks/selected/delete?task={ended}&task={live}").text
    assert f"Nothing happens to 1 of them: task {live} live." in page
    house.as_("user", ALICE).post(f"/tasks/{live}/cancel")
    alice.post("/tasks/selected/delete", data=hidden(page))
    assert [house.store.queries.task(task) is None for task in (ended, live)] == [True, False]


def test_a_selection_has_only_the_persons_own_tasks(
    alice: TestClient, submit: Submit, pages: PageHouse
) -> None:
    other = submit(BOB, name="other")
    assert alice.get(f"/tasks/selected/cancel?task={other}").status_code == 404
    assert alice.get("/tasks/selected/cancel").status_code == 422
    assert alice.get("/tasks/selected/cancel?task=x").status_code == 422
    form = hidden(alice.get(f"/tasks/{submit(name='own')}/hold").text) | {"chosen": str(other)}
    assert alice.post("/tasks/selected/cancel", data=form).status_code == 404
    found = pages.store.queries.task(other)
    assert found
    assert found.state is TaskState.REGISTERED


def test_ticked_jobs_are_cancelled_and_retried(alice: TestClient, submit: Submit, house: House) -> None:
    task = submit(jobs=3, scouts=0)
    house.activate(task)
    jobs = [job.id for job in house.store.job_lists.page(task, JobPage(), house.now)]
    form = hidden(alice.get(f"/jobs/selected/cancel?job={jobs[0]}&job={jobs[1]}").text)
    answer = alice.post("/jobs/selected/cancel", data=form)
    assert answer.headers["location"] == f"/tasks/{task}/jobs?done=cancel"
    page = alice.get(f"/jobs/selected/retry?job={jobs[0]}&job={jobs[2]}").text
    assert "1 job will run again." in page
    alice.post("/jobs/selected/retry", data=hidden(page))
    assert [house.job(job).state is JobState.CANCELLED for job in jobs] == [False, True, False]
