"""Quotas of single people, groups and VOs: who sets them, when they hold, and core hours of a month."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage.federation.checks import federation_faults
from pilotage.flow.calls.work.use_limits import month_of
from pilotage.model.records.quotas import GlobalShare, QuotaConstants, QuotaException, ShareUseConstants
from pilotage.model.values.identity import Identity
from pilotage.store import ShareSample

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


def weigh(house: House, *further: GlobalShare, window: int = 0) -> None:
    """Give the federation shares of two VOs."""
    shares = (
        GlobalShare(name="atlas", vo="atlas", target=60),
        GlobalShare(name="higgs", vo="atlas", parent="atlas", target=1),
        GlobalShare(name="top", parent="higgs", target=1),
        GlobalShare(name="belle", vo="belle", target=40),
        *further,
    )
    declared = replace(
        house.store.declared_federation(), shares=shares, share_use=ShareUseConstants(window=window)
    )
    house.store.save_federation(declared, "test")


def set_target(client: TestClient, name: str, target: float) -> int:
    return set_quota(client, kind="share", name=name, target=target)


def targets(house: House) -> dict[str, float]:
    return {share.name: share.target for share in house.store.federation().shares}


def test_the_target_of_a_share_is_set_and_lifted_live(house: House, operator: TestClient) -> None:
    weigh(house)
    assert set_target(operator, "higgs", 3) == 200
    assert targets(house) == {"atlas": 60, "higgs": 3, "top": 1, "belle": 40}
    shown = {share["name"]: share["target"] for share in operator.get("/shares").json()["shares"]}
    assert shown["higgs"] == 3
    (exception,) = operator.get("/quotas").json()["exceptions"]
    assert (exception["kind"], exception["name"], exception["vo"]) == ("share", "higgs", "atlas")
    weigh(house, GlobalShare(name="susy", parent="atlas"))
    assert targets(house)["higgs"] == 3, "a reload of the federation does not undo it"
    lifting = {"kind": "share", "name": "higgs", "because": "enough"}
    assert operator.post("/quotas/lift", json=lifting).status_code == 200
    assert targets(house)["higgs"] == 1
    assert operator.post("/quotas/lift", json=lifting).status_code == 404
    assert set_target(operator, "nobodys", 3) == 404
    notes = [version["note"] for version in operator.get("/federation/history").json()["versions"]]
    assert notes[:1] == ["quota of share higgs of atlas lifted: enough"]
    assert "quota of share higgs of atlas: target 3: a test" in notes


def test_a_manager_sets_targets_inside_the_share_of_the_vo_alone(house: House, operator: TestClient) -> None:
    weigh(house)
    mona, foreign = house.as_("manager", MONA), house.as_("manager", OTHER_ALICE)
    for name, expected in {"atlas": 403, "higgs": 200, "top": 200, "belle": 403}.items():
        assert set_target(mona, name, 5) == expected, name
        assert set_target(foreign, name, 5) == 403, name
    assert set_target(operator, "atlas", 5) == 200
    for role in ("user", "site-admin", "monitor"):
        client = house.as_(role, ALICE, sites=["north"] if role == "site-admin" else [])
        assert set_target(client, "higgs", 5) == 403, role
    lifting = {"kind": "share", "because": "a test"}
    assert mona.post("/quotas/lift", json={**lifting, "name": "atlas"}).status_code == 403
    assert mona.post("/quotas/lift", json={**lifting, "name": "top"}).status_code == 200
    seen = [len(client.get("/quotas").json()["exceptions"]) for client in (mona, operator, foreign)]
    assert seen == [2, 2, 0]


def test_a_target_ends_with_its_share(house: House, operator: TestClient) -> None:
    weigh(house, GlobalShare(name="susy", parent="atlas"))
    assert set_target(operator, "susy", 7) == 200
    weigh(house)
    assert operator.get("/quotas").json()["exceptions"] == []
    weigh(house, GlobalShare(name="susy", parent="atlas"))
    assert targets(house)["susy"] == 1


def test_targets_that_follow_use_begin_with_the_new_one_at_once(house: House, operator: TestClient) -> None:
    weigh(house, window=7)
    samples = [ShareSample(share=name, running=1, used=0.5, target=0.5) for name in ("atlas", "belle")]
    house.store.past.add_sample(samples, house.now - 3600)
    house.store.past.follow_use(house.store.unrestricted_federation(), house.now)
    before = targets(house)["belle"]
    assert before < 40, "it used half of all, and 40 % are its part"
    assert set_target(operator, "belle", 80) == 200
    assert targets(house)["belle"] > 80, "it used less than its new part"
    assert targets(house)["atlas"] < 60
    assert set_target(operator, "belle", 40) == 200
    assert targets(house)["belle"] == before


def test_a_file_sets_targets_in_its_shares_alone(house: House) -> None:
    declared = house.store.declared_federation()
    cases = {
        QuotaException(kind="share", name="higgs", target=1): "is for a share",
        QuotaException(kind="group", name="higgs", tasks=1): "cannot have",
        QuotaException(kind="person", name="ada"): "has no limit",
    }
    for exception, expected in cases.items():
        (fault,) = federation_faults(replace(declared, quotas=QuotaConstants(exceptions=(exception,))))
        assert expected in fault.text
    fit = QuotaException(kind="person", name="ada", transferred=1)
    assert federation_faults(replace(declared, quotas=QuotaConstants(exceptions=(fit,)))) == []


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
        {"target": 3},
        {"jobs": 1, "target": 3},
        {"kind": "share", "name": "higgs", "jobs": 3},
        {"kind": "share", "name": "higgs", "jobs": 3, "target": 3},
        {"kind": "share", "name": "higgs", "target": -1},
        {"kind": "share", "name": "", "target": 1},
    ],
)
def test_bad_limits_are_refused(house: House, operator: TestClient, fields: dict[str, Any]) -> None:
    weigh(house)
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
