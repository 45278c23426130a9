"""What people with other roles than user and operator see and do on the page."""

import re
from typing import Any

from pilotage.model.values.identity import Identity
from pilotage.store import AuditQuery
from tests.api.conftest import ALICE, BOB, OTHER_ALICE, House

from .conftest import PageHouse, Submit, TestClient

MONA = Identity(name="mona", vo="atlas")


def sent(browser: TestClient, path: str, **fields: str) -> Any:
    """Send the form of a page."""
    page = browser.get(path)
    assert page.status_code == 200, page.text
    token = re.search(r'name="form_token" value="(\w+)"', page.text)
    assert token
    return browser.post(path, data={"form_token": token[1], **fields})


def test_a_monitor_sees_what_operators_see_and_changes_nothing(pages: PageHouse, submit: Submit) -> None:
    task = submit()
    monitor = pages.signed_in("monitor", Identity(name="mo"))
    for path in (
        "/",
        "/pilots",
        "/transfers",
        "/admin",
        "/admin/servers",
        "/admin/tokens",
        "/quotas",
        "/audit",
    ):
        assert monitor.get(path).status_code == 200, path
    page = monitor.get(f"/tasks/{task}").text
    assert "You are a monitor" in page
    assert f"/tasks/{task}/cancel" not in page
    assert monitor.get(f"/tasks/{task}/cancel").status_code == 403
    for path in (f"/tasks/{task}/cancel", "/queues/north-queue/drain", "/simulate", "/quotas/limit"):
        answer = monitor.post(path, data={})
        assert (answer.status_code, "you are a monitor" in answer.text) == (403, True), path


def test_a_manager_sees_and_changes_the_work_of_the_vo(pages: PageHouse, submit: Submit) -> None:
    task, others = submit(), submit(owner=OTHER_ALICE)
    manager = pages.signed_in("manager", MONA)
    page = manager.get("/tasks").text
    assert (f'"/tasks/{task}"' in page, f'"/tasks/{others}"' in page) == (True, False)
    assert "You are a manager of atlas" in manager.get("/").text
    assert manager.get(f"/tasks/{others}").status_code == 404
    assert sent(manager, f"/tasks/{task}/hold").status_code == 303
    for path in ("/pilots", "/admin/tokens", "/queues/north-queue/drain"):
        assert manager.get(path).status_code == 403, path


def test_a_site_admin_acts_at_their_sites(house: House, pages: PageHouse) -> None:
    mine, _ = house.pilot()
    other, _ = house.pilot(queue="south-queue")
    admin = pages.signed_in("site-admin", BOB, ["north"])
    assert 'href="/queues/north-queue/drain"' in admin.get("/queues/north-queue").text
    assert 'href="/queues/south-queue/drain"' not in admin.get("/queues/south-queue").text
    assert sent(admin, "/queues/north-queue/drain", because="new disks").status_code == 303
    assert admin.get("/queues/south-queue/drain").status_code == 403
    assert [admin.get(f"/pilots/{number}").status_code for number in (mine, other)] == [200, 404]
    page = admin.get("/pilots").text
    assert (f'"/pilots/{mine}"' in page, f'"/pilots/{other}"' in page) == (True, False)
    assert admin.get(f"/live?pilot={other}").status_code == 404


def test_a_manager_sets_and_lifts_limits(house: House, pages: PageHouse) -> None:
    manager, alice = pages.signed_in("manager", MONA), pages.signed_in("user", ALICE)
    set_ = sent(manager, "/quotas/limit", holder="alice", core_hours="2.5", jobs="3", because="a test")
    assert (set_.status_code, set_.headers["location"]) == (303, "/quotas?done=limit")
    page = alice.get("/quotas").text
    assert "jobs 3, core_hours 2.5" in page
    assert "a test" in page
    assert "/quotas/limit" not in page
    assert alice.get("/quotas/limit").status_code == 403
    assert sent(manager, "/quotas/limit", holder="alice", jobs="many", because="x").status_code == 422
    assert sent(manager, "/quotas/limit", holder="vo:atlas", jobs="3", because="x").status_code == 403
    shown = manager.get("/quotas/limit?holder=share:higgs&target=3").text
    assert "pilotage shares set higgs 3 --because REASON" in shown
    assert sent(manager, "/quotas/limit", holder="share:higgs", target="3", because="x").status_code == 404
    lifted = sent(manager, "/quotas/unlimit?holder=alice", holder="alice", because="done")
    assert lifted.status_code == 303, lifted.text
    assert "None." in alice.get("/quotas").text
    made = [record for record in house.store.audit.page(AuditQuery()) if "quota" in record.verb]
    assert [(record.verb, record.record, record.person) for record in made] == [
        ("lift quota", "alice", "mona"),
        ("set quota", "alice", "mona"),
    ]
