"""Quotas of single people, groups and VOs: who sets them, when they hold, and core hours of a month."""

from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage.flow.calls.work.use_limits import month_of
from pilotage.model.records.quotas import QuotaConstants, QuotaException
from pilotage.model.values.identity import Identity

from .conftest import ALICE, BOB, OTHER_ALICE, House, Submit
from .test_usage import run

MONA = Identity(name="mona", vo="atlas")


def set_quota(client: TestClient, **fields: Any) -> int:
    body = {"kind": "person", "name": "alice", "because": "a test", **fields}
    return int(client.put("/quotas", json=body).status_code)


def refusal(client: TestClient) -> str:
    answer = client.post("/tasks", json={"tasks": [{"name": "work", "command": ["true"]}]})
    return "" if answer.status_code == 201 else str(answer.json())


def test_limits_of_a_person_hold_at_once_and_are_lifted(house: House, alice: TestClient) -> None:
    mona, bob = house.as_("manager", MONA), house.as_("user", BOB)
    assert refusal(alice) == ""
    assert set_quota(mona, tasks=1) == 200
    assert "above the quota of 1;" in refusal(alice)
    assert refusal(bob) == ""
    (exception,) = alice.get("/quotas").json()["exceptions"]
    assert (exception["tasks"], exception["because"], exception["actor"]) == (1, "a test", "manager:mona")
    used = {row["constant"]: (row["used"], row["limit"]) for row in alice.get("/quotas").json()["of_caller"]}
    assert used["tasks_by_user"] == (1, 1)
    assert bob.get("/quotas").json()["exceptions"] == []
    house.store.save_federation(house.store.declared_federation(), "test")
    assert refusal(alice), "a reload of the federation does not undo it"
    lifting = {"kind": "person", "name": "alice", "because": "enough"}
    assert mona.post("/quotas/lift", json=lifting).status_code == 200
    assert refusal(alice) == ""
    assert mona.post("/quotas/lift", json=lifting).status_code == 404
    notes = [
        version["note"]
        for version in house.as_("operator", MONA).get("/federation/history").json()["versions"]
    ]
    assert "quota of person alice of atlas: tasks 1: a test" in notes
    assert "quota of person alice of atlas lifted: enough" in notes


def test_a_manager_limits_people_and_groups_of_the_vo_alone(house: House, operator: TestClient) -> None:
    mona, foreign = house.as_("manager", MONA), house.as_("manager", OTHER_ALICE)
    of_vo = {"kind": "vo", "name": "", "vo": "atlas", "jobs": 5}
    assert set_quota(mona, kind="group", name="higgs", jobs=5) == 200
    assert [set_quota(mona, **of_vo), set_quota(operator, **of_vo)] == [403, 200]
    assert set_quota(foreign, vo="atlas", jobs=5) == 403
    for role in ("user", "site-admin", "monitor"):
        client = house.as_(role, ALICE, sites=["north"] if role == "site-admin" else [])
        assert set_quota(client, jobs=5) == 403, role
    seen = [len(client.get("/quotas").json()["exceptions"]) for client in (mona, operator, foreign)]
    assert seen == [2, 2, 0]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "group", "name": "higgs", "tasks": 1},
        {"kind": "vo", "jobs": 1},
        {"name": "", "jobs": 1},
        {"jobs": -1},
        {"core_hours": 1e13},
        {"name": "a:b", "jobs": 1},
        {"because": "", "jobs": 1},
    ],
)
def test_bad_limits_are_refused(operator: TestClient, fields: dict[str, Any]) -> None:
    assert set_quota(operator, vo="atlas", **fields) == 422


def test_core_hours_of_a_month_stop_submissions(house: House, alice: TestClient, submit: Submit) -> None:
    house.now = datetime(2027, 1, 30, 12, tzinfo=UTC).timestamp()
    mona, bob, other = house.as_("manager", MONA), house.as_("user", BOB), house.as_("user", OTHER_ALICE)
    run(house, submit(jobs=2, cores=2), 1800)
    assert set_quota(mona, core_hours=2.5) == 200
    assert refusal(alice) == "", "2 of 2.5 hours"
    assert set_quota(mona, core_hours=2) == 200
    assert "user alice used 2.0 core hours this month, and 2 are the most" in refusal(alice)
    assert "2027-02-01" in refusal(alice)
    assert [refusal(bob), refusal(other)] == ["", ""]
    assert set_quota(mona, kind="group", name="higgs", core_hours=1) == 200
    assert "group higgs used 2.0" in refusal(bob)
    house.now += 2 * 86_400
    assert [refusal(alice), refusal(bob)] == ["", ""], "the next month"


def test_bytes_transferred_in_a_month_stop_submissions(
    house: House, alice: TestClient, submit: Submit
) -> None:
    house.now = datetime(2027, 1, 30, 12, tzinfo=UTC).timestamp()
    mona, bob, other = house.as_("manager", MONA), house.as_("user", BOB), house.as_("user", OTHER_ALICE)
    run(house, submit(jobs=2), 60, written=1_500_000_000)
    used = {row["constant"]: row["used"] for row in alice.get("/quotas").json()["of_caller"]}
    assert [used[f"transferred_by_{holder}"] for holder in ("user", "group", "vo")] == [3, 3, 3]
    assert set_quota(mona, transferred=3.5) == 200
    assert refusal(alice) == "", "3 of 3.5 GB"
    assert set_quota(mona, transferred=3, core_hours=1) == 200
    assert "user alice transferred 3.0 GB this month, and 3 are the most (quotas.transferred" in refusal(
        alice
    )
    assert "2027-02-01" in refusal(alice)
    assert [refusal(bob), refusal(other)] == ["", ""]
    assert set_quota(mona, kind="group", name="higgs", transferred=1) == 200
    assert "group higgs transferred 3.0 GB" in refusal(bob)
    house.now += 2 * 86_400
    assert [refusal(alice), refusal(bob)] == ["", ""], "the next month"


def test_months_end_in_utc() -> None:
    december = datetime(2027, 12, 31, 23, 59, tzinfo=UTC).timestamp()
    assert [datetime.fromtimestamp(time, UTC).isoformat() for time in month_of(december)] == [
        "2027-12-01T00:00:00+00:00",
        "2028-01-01T00:00:00+00:00",
    ]


def test_the_limits_of_an_owner_are_theirs_their_groups_and_their_vos() -> None:
    quotas = QuotaConstants(
        jobs_by_user=10,
        exceptions=(
            QuotaException(kind="person", name="alice", vo="atlas", jobs=1, core_hours=5),
            QuotaException(kind="group", name="higgs", vo="atlas", jobs=2),
            QuotaException(kind="vo", vo="atlas", jobs=3, tasks=4),
            QuotaException(kind="person", name="alice", vo="belle", jobs=9),
        ),
    )
    limits = quotas.for_owner(ALICE)
    assert (limits.jobs_by_user, limits.jobs_by_group, limits.jobs_by_vo) == (1, 2, 3)
    assert (limits.tasks_by_vo, limits.core_hours_by_user, limits.core_hours_by_vo) == (4, 5, None)
    assert quotas.for_owner(BOB).jobs_by_user == 10
    assert quotas.for_owner(Identity(name="carol")) == quotas
    assert [quotas.may_throttle([2]), quotas.may_throttle([1])] == [True, False]


def test_jobs_beyond_the_limit_of_a_person_wait_until_it_is_raised(
    house: House, operator: TestClient, submit: Submit
) -> None:
    def states(task: int) -> list[str]:
        return sorted(job.state for job in house.store.queries.jobs(task, None, 10, 0))

    assert set_quota(operator, vo="atlas", jobs=1) == 200
    task = submit(jobs=3, scouts=0)
    house.split()
    assert states(task) == ["defined", "throttled", "throttled"]
    assert set_quota(operator, vo="atlas", jobs=2) == 200
    house.split()
    assert states(task) == ["defined", "defined", "throttled"]
