"""What people do on the page, in a real browser: from a question to what mends it."""

import pytest
from playwright.sync_api import Page, expect

from pilotage.model.records.states import JobState
from tests.api.conftest import ALICE

from .conftest import Served, Visit
from .work import SCRIPT, BusyPilot, submit, trip

_REACHED = """() => {
    const one = document.activeElement;
    return [one.innerText || '', getComputedStyle(one).outlineStyle];
}"""
"""The words of what the keyboard has reached, and how its outline is drawn."""


def new_task(served: Served, name: str, **fields: object) -> int:
    """Submit a task of Alice's with one job."""
    return submit(served.house.as_("user", ALICE), name=name, **fields)


def failed_job(served: Served, name: str) -> int:
    """Let the job of a new task fail."""
    pilot = BusyPilot(served.house, new_task(served, name, max_attempts=1), "east-queue")
    pilot.fail(pilot.jobs[0], "OSError: disk full", "the last line before the end\n")
    served.house.now += 1
    return pilot.jobs[0]


def test_a_failure_leads_to_its_log_and_a_retry(served: Served, visit: Visit) -> None:
    job = failed_job(served, "fails-once")
    page = visit("alice", "/")
    row = page.get_by_role("row").filter(has_text="fails-once")
    expect(row).to_contain_text("OSError: disk full")
    row.get_by_role("link", name=f"log of job {job}").click()
    expect(page.locator("pre", has_text="the last line before the end")).to_be_visible()
    page.get_by_role("link", name="Retry …").click()
    expect(page.locator("main")).to_contain_text("1 job will run again: 1 failed.")
    assert served.house.job(job).state is JobState.FAILED, "nothing happens before the button"
    page.get_by_role("button", name="Retry it").click()
    expect(page.get_by_role("status").filter(has_text="Retried. Jobs: 1.")).to_be_visible()
    assert served.house.job(job).state is not JobState.FAILED
    expect(page.locator("main")).to_contain_text("The payload of an earlier attempt ended with code 1.")


def test_a_waiting_task_leads_to_a_what_if_and_a_change(served: Served, visit: Visit) -> None:
    task = new_task(served, "asks-too-much", jobs=3, ram=64_000)
    served.broker()
    page = visit("alice", "/tasks?name=asks-*")
    page.get_by_role("link", name="asks-too-much").click()
    expect(page.get_by_role("row").filter(has_text="memory")).to_be_visible()
    page.get_by_label("Memory, MB").fill("2000")
    page.get_by_role("button", name="Try").click()
    expect(page.locator("form.whatif")).to_contain_text("It opens")
    page.get_by_role("link", name="Change it …").click()
    expect(page.locator("main")).to_contain_text("3 jobs will change")
    page.get_by_role("button", name="Change it").click()
    expect(page.get_by_role("status").filter(has_text="Changed. Jobs: 3.")).to_be_visible()
    expect(page.get_by_role("heading", name="before the last change of jobs")).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("until somebody acts")
    found = served.house.store.queries.task(task)
    assert found
    assert found.changes


def test_a_queue_that_rests_leads_to_lifting_its_breaker(served: Served, visit: Visit) -> None:
    trip(served.house, served.house.as_("user", ALICE), "breaks-the-queue")
    served.house.now += 1
    page = visit("olga", "/")
    rests = page.get_by_role("region", name="What is paused?")
    expect(rests).to_contain_text("OSError: disk")
    rests.get_by_role("link", name="lift south-queue …").first.click()
    expect(page.locator("main")).to_contain_text("will close, and all is tried again at once")
    page.get_by_role("button", name="Lift it").click()
    expect(page.get_by_role("status").filter(has_text="Lifted.")).to_be_visible()
    expect(rests).to_have_count(0)


def test_a_journey_needs_the_keyboard_alone(served: Served, visit: Visit) -> None:
    new_task(served, "by-keyboard")
    page = visit(None, "/tasks?name=by-*")
    expect(page.get_by_role("link", name="Sign in with iam")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("textbox", name="Your token")).to_be_focused()
    page.keyboard.type(served.token("alice"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    tab_to(page, "by-keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="by-keyboard")).to_be_visible()
    tab_to(page, "Hold …")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Hold task")).to_be_visible()
    tab_to(page, "Hold it")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Held")).to_be_visible()


def tab_to(page: Page, words: str) -> None:
    """Press Tab until what has these words is reached; each stop on the way shows that it is reached."""
    for _ in range(60):
        page.keyboard.press("Tab")
        text, outline = page.evaluate(_REACHED)
        assert outline != "none", f"nobody sees that {text!r} is reached"
        if text.strip() == words:
            return
    raise AssertionError(f"Tab does not reach {words!r}")


def test_reading_filters_and_actions_work_without_javascript(served: Served, visit: Visit) -> None:
    new_task(served, "plain-one", labels={"kind": "plain"})
    page = visit("alice", "/tasks", java_script_enabled=False)
    page.get_by_role("textbox", name="Name").fill("plain-*")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("row")).to_have_count(2)
    expect(page.locator("#refreshing")).to_be_hidden()
    page.get_by_role("link", name="plain-one").click()
    for tab in ("Jobs", "Data", "Log", "Use", "Why"):
        page.get_by_role("navigation", name="Task").get_by_role("link", name=tab).click()
        expect(page.locator("[aria-current=page]").filter(has_text=tab)).to_be_visible()
    page.get_by_role("link", name="Cancel …").click()
    page.get_by_role("button", name="Cancel it").click()
    expect(page.get_by_role("status").filter(has_text="Cancelled.")).to_be_visible()


def test_two_users_do_not_see_each_other(served: Served, visit: Visit) -> None:
    alice, bob = visit("alice", "/tasks"), visit("bob", "/tasks")
    expect(alice.locator("main")).to_contain_text("reconstruct-run-4711")
    expect(bob.locator("main")).to_contain_text("bobs-secret-search")
    for page, other in ((alice, "bobs-"), (bob, "reconstruct-run-4711")):
        for path in ("/", "/tasks", f"/tasks?name=*{other}*"):
            page.goto(path)
            expect(page.locator("main")).not_to_contain_text(other)
    for path in ("/tasks/{mixed}", "/tasks/{mixed}/jobs", "/tasks/{mixed}/log", "/jobs/{failed}/log"):
        visit("bob", path, 404)
        assert bob.request.get(served.address(f"/as-json{path}")).status == 404
    visit("alice", "/tasks/{bobs}", 404)
    visit("alice", "/tasks/{bobs}/cancel", 404)


@pytest.mark.parametrize("path", ["/jobs", "/log"])
def test_markup_in_what_people_wrote_stays_text(served: Served, visit: Visit, path: str) -> None:
    page = visit("alice", f"/tasks/{{script}}{path}")
    expect(page.locator("main")).to_contain_text(SCRIPT)
    assert "taken" not in page.title()


def test_a_task_named_as_a_script_is_refused_and_found_nowhere(served: Served, visit: Visit) -> None:
    body = {"tasks": [{"name": SCRIPT, "command": ["true"]}]}
    assert served.house.as_("user", ALICE).post("/tasks", json=body).status_code == 422
    page = visit("alice", "/tasks")
    page.get_by_role("textbox", name="Name").fill(SCRIPT)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("textbox", name="Name")).to_have_value(SCRIPT)
    expect(page.locator("main")).to_contain_text("No task is like that.")
    assert "taken" not in page.title()


def test_a_person_signs_in_with_a_provider_and_out_again(visit: Visit) -> None:
    page = visit(None, "/tasks?name=a")
    page.get_by_role("link", name="Sign in with iam").click()
    page.wait_for_url("**/tasks?name=a")
    expect(page.locator(".who")).to_contain_text("ada · atlas")
    page.get_by_role("link", name="Administration").click()
    page.get_by_role("link", name="Sessions").click()
    expect(page.get_by_role("row").filter(has_text="this one")).to_contain_text("iam")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto("/tasks")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_page_says_that_the_server_is_away_and_comes_back(served: Served, visit: Visit) -> None:
    task = new_task(served, "survives")
    page = visit("alice", f"/tasks/{task}")
    away = page.get_by_text("Not connected")
    expect(away).to_be_hidden()
    served.stop()
    expect(away).to_be_visible()
    answer = served.house.as_("user", ALICE).post(f"/tasks/{task}/hold")
    assert answer.status_code == 200, answer.text
    served.start()
    expect(away).to_be_hidden()
    expect(page.locator("#live")).to_contain_text("Held by")


def test_what_happens_is_seen_at_once_and_nobody_asks(served: Served, visit: Visit) -> None:
    task = new_task(served, "is-watched")
    page = visit("alice", f"/tasks/{task}")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_request("**/live?*"):
        page.reload()
    page.wait_for_function("() => !document.getElementById('refreshing').hidden")
    served.house.as_("user", ALICE).post(f"/tasks/{task}/cancel")
    expect(page.locator("#live")).to_contain_text("cancelled")
    address = served.address(f"/tasks/{task}")
    assert asked.count(address) == 2, "the page, and once what changed"


def test_progress_leads_to_failed_jobs_their_log_and_a_retry_of_several(served: Served, visit: Visit) -> None:
    names = ("sweep-left", "sweep-right")
    jobs = []
    for name in names:
        task = new_task(served, name, jobs=5, max_attempts=1)
        pilot = BusyPilot(served.house, task, "east-queue")
        for job in pilot.jobs[:2]:
            pilot.fail(job, "ValueError: no star in the picture", "read 0 stars\n")
        pilot.report(pilot.jobs[2], "running")
        jobs.append(pilot.jobs)
    page = visit("alice", "/tasks")
    page.get_by_role("textbox", name="Name").press_sequentially("sweep-*")
    expect(page.get_by_role("row")).to_have_count(3)
    row = page.get_by_role("row").filter(has_text="sweep-left")
    expect(row).to_contain_text("2 failed")
    row.get_by_role("link", name="sweep-left").click()
    expect(page.locator("#live")).to_contain_text("0 of 5 jobs are done")
    page.get_by_role("navigation", name="Task").get_by_role("link", name="Jobs").click()
    page.get_by_label("only failed").check()
    failed = page.get_by_role("checkbox", name="job ")
    expect(failed).to_have_count(2)
    page.get_by_role("link", name=f"log of job {jobs[0][0]}").click()
    expect(page.locator("pre", has_text="read 0 stars")).to_be_visible()
    page.goto(served.address("/tasks?name=sweep-*"))
    button = page.get_by_role("button", name="Retry")
    expect(button).to_be_disabled()
    page.get_by_role("checkbox", name="all of these rows").check()
    expect(button).to_have_text("Retry 2 …")
    button.click()
    expect(page.locator("main")).to_contain_text("4 jobs of 2 tasks will run again.")
    assert served.house.job(jobs[1][0]).state is JobState.FAILED, "nothing happens before the button"
    page.get_by_role("button", name="Retry them").click()
    expect(page.get_by_role("status").filter(has_text="Retried. Jobs: 4.")).to_be_visible()
    assert all(served.house.job(job).state is not JobState.FAILED for task in jobs for job in task)


def test_rows_are_sorted_by_a_click_and_ended_tasks_deleted(served: Served, visit: Visit) -> None:
    for name, count in (("old-b", 3), ("old-a", 12), ("old-c", 2)):
        task = new_task(served, name, jobs=count)
        served.house.as_("user", ALICE).post(f"/tasks/{task}/cancel")
    page = visit("alice", "/tasks?name=old-*")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_role("button", name="name", exact=True).click()
    assert [row.split("\n")[0] for row in page.locator("tbody th").all_inner_texts()] == [
        "old-a",
        "old-b",
        "old-c",
    ]
    expect(page.get_by_role("columnheader", name="name")).to_have_attribute("aria-sort", "ascending")
    for name in ("old-a", "old-c"):
        rows.filter(has_text=name).get_by_role("checkbox").check()
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("main")).to_contain_text("This goes with 2 tasks, and cannot be brought back:")
    page.get_by_role("button", name="Delete them").click()
    page.goto(served.address("/tasks?name=old-*"))
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("old-b")


def test_a_task_is_shared_with_a_second_person_and_revoked(served: Served, visit: Visit) -> None:
    job = failed_job(served, "shared-once")
    task = served.house.job(job).task
    visit("bob", f"/tasks/{task}", 404)
    alice = visit("alice", f"/tasks/{task}")
    alice.get_by_role("link", name="Share …").click()
    alice.get_by_label("Who may read it").fill("bob")
    alice.get_by_role("button", name="Share it").click()
    expect(alice.locator("main")).to_contain_text("Others may read it: bob")
    bob = visit("bob", f"/tasks/{task}/log")
    expect(bob.locator("main")).to_contain_text("the last line before the end")
    expect(bob.get_by_role("link", name="Retry …")).to_have_count(0)
    alice.get_by_role("link", name="revoke").click()
    alice.get_by_role("button", name="Revoke it").click()
    expect(alice.locator("main")).not_to_contain_text("Others may read it")
    visit("bob", f"/tasks/{task}", 404)


def test_the_log_of_a_running_job_follows(served: Served, visit: Visit) -> None:
    pilot = BusyPilot(served.house, new_task(served, "writes-a-lot"), "east-queue")
    lines = "\n".join(f"step {number}" for number in range(200))
    pilot.report(pilot.jobs[0], "running", lines)
    page = visit("alice", f"/jobs/{pilot.jobs[0]}/log")
    log = page.locator("pre.grows")
    is_at_end = "log => log.scrollTop > 0 && log.scrollTop + log.clientHeight > log.scrollHeight - 4"
    expect(log).to_contain_text("step 199")
    assert log.evaluate(is_at_end)
    pilot.report(pilot.jobs[0], "running", f"{lines}\nthe newest line")
    expect(log).to_contain_text("the newest line")
    assert log.evaluate(is_at_end)
    log.evaluate("log => { log.scrollTop = 40; }")
    pilot.report(pilot.jobs[0], "running", f"{lines}\nthe newest line\nand one after it")
    expect(log).to_contain_text("and one after it")
    assert log.evaluate("log => log.scrollTop") == 40, "it stays where somebody reads"
