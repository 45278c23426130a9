"""B1 to B9 of the production brokerage at their boundaries, and what holds for all checks."""

from typing import Any

import pytest

from pilotage.model.documents.world import World
from pilotage.model.records.federation import Link
from pilotage.model.records.work import JobKind, MergeSpec
from pilotage.policies.brokerage.production.checks import CHECKS
from pilotage.testing import (
    HOUR,
    NOW,
    federation,
    federation_linked_by,
    jobs,
    jobs_at,
    queue,
    queue_report,
    task,
    waiting_on_link,
    world,
)
from pilotage.testing.choices import only_choice, refusals, refused, refused_in

MERGE = MergeSpec(command=("merge",), outputs=("all",))
TWO_SITES = federation([queue("NEAR"), queue("FAR", site="AWAY")])


def test_no_two_checks_share_a_bit_and_a_name() -> None:
    assert len(CHECKS) <= 64
    assert len({(check.rule, check.name) for check in CHECKS}) == len(CHECKS)


def test_nothing_stands_in_the_way_of_a_plain_job() -> None:
    choice = only_choice(world(TWO_SITES, task()))
    assert not choice.refusals
    assert set(choice.candidates.queues) == {"NEAR", "FAR"}


@pytest.mark.parametrize("name", ["SITE_TEST", "testing", "aTeStb"])
def test_b1_test_in_the_name_is_refused_in_any_case(name: str) -> None:
    assert refused(federation([queue(name), queue("PROD")]), "B1") == {name}


def test_b1_a_test_queue_that_the_task_names_is_taken() -> None:
    house = federation([queue("TEST"), queue("PROD")])
    assert only_choice(world(house, task(queues=("TEST",)))).candidates.queues == ("TEST",)


def test_b2_only_the_named_queues_are_considered() -> None:
    house = federation([queue("A"), queue("B"), queue("C")])
    assert refused(house, "B2", queues=("B", "C")) == {"A"}
    assert refused(house, "B2", queues=("nowhere",)) == {"A", "B", "C"}
    assert refused(house, "B2") == set()


def test_b2_a_unified_queue_stands_for_its_pseudo_queues() -> None:
    house = federation(
        [queue("U"), queue("U-1", parent="U"), queue("U-8", parent="U", cores=8), queue("OTHER")]
    )
    assert refused(house, "B2", queues=("U",)) == {"U", "OTHER"}
    assert refused(house, "B2") == {"U"}
    assert only_choice(world(house, task(queues=("U",), cores=8))).candidates.queues == ("U-8",)


def test_b2_a_unified_queue_needs_no_entry_of_its_own() -> None:
    house = federation([queue("U-1", parent="U"), queue("OTHER")])
    assert refused(house, "B2", queues=("U",)) == {"OTHER"}


@pytest.mark.parametrize(
    ("status", "takes"),
    [
        ("online", True),
        ("standby", True),
        ("offline", False),
        ("brokeroff", False),
        ("paused", False),
        ("test", False),
    ],
)
def test_b4_online_and_standby_take_jobs(status: Any, takes: bool) -> None:
    assert refused(federation([queue(status=status)]), "B4") == (set() if takes else {"Q"})


def test_b4_is_set_aside_for_a_named_queue_and_said_so() -> None:
    choice = only_choice(world(federation([queue(status="offline")]), task(queues=("Q",))))
    assert choice.candidates.queues == ("Q",)
    (waived,) = choice.waived
    assert (waived.rule, waived.queues, waived.have) == ("B4", ("Q",), ("offline",))


def test_b2_a_named_queue_passes_every_other_check() -> None:
    house = federation([queue(status="offline", max_memory=1000)])
    assert refusals(only_choice(world(house, task(queues=("Q",), ram=2000)))) == {"B15": {"Q"}}


def test_b5_a_link_of_closeness_minus_one_is_blocked() -> None:
    assert refused(federation_linked_by(closeness=-1), "B5", nucleus="HOME") == {"FAR"}
    assert refused(federation_linked_by(closeness=0), "B5", nucleus="HOME") == set()
    assert refused(federation_linked_by(closeness=-1), "B5") == set()


def test_b5_is_about_the_link_to_the_nucleus_not_from_it() -> None:
    house = federation(
        [queue("NEAR"), queue("FAR", site="AWAY")],
        links=[Link(source="HOME", destination="AWAY", closeness=-1)],
    )
    assert refused(house, "B5", nucleus="HOME") == set()


@pytest.mark.parametrize(("files", "full"), [(149, False), (150, False), (151, True)])
def test_b6_more_files_than_the_cap_fill_a_link(files: int, full: bool) -> None:
    state = world(TWO_SITES, task(nucleus="HOME"), link_counts=waiting_on_link(files))
    assert refused_in(state, "B6") == ({"FAR"} if full else set())


def test_b6_queues_of_the_nucleus_pass() -> None:
    link_counts = waiting_on_link(500, source="HOME")
    assert refused_in(world(TWO_SITES, task(nucleus="HOME"), link_counts=link_counts), "B6") == set()


@pytest.mark.parametrize(("files", "full"), [(10_000, False), (10_001, True)])
def test_b7_more_files_than_the_cap_fill_a_nucleus_for_all_but_its_own_queues(files: int, full: bool) -> None:
    house = federation([queue("NEAR"), queue("FAR", site="AWAY"), queue("THIRD", site="ELSEWHERE")])
    state = world(house, task(nucleus="HOME"), link_counts=waiting_on_link(files))
    assert refused_in(state, "B7") == ({"FAR", "THIRD"} if full else set())


@pytest.mark.parametrize(
    ("priority", "kind", "kept"),
    [(799, "normal", False), (800, "normal", True), (1, "scout", True), (1, "merge", False)],
)
def test_b8_high_priority_and_scouts_stay_at_the_nucleus(priority: int, kind: JobKind, kept: bool) -> None:
    spec = {"priority": priority, "nucleus": "HOME", "merge": MERGE}
    assert refused(TWO_SITES, "B8", kind=kind, **spec) == ({"FAR"} if kept else set())


def test_b8_opportunistic_queues_of_the_nucleus_are_refused_too() -> None:
    house = federation([queue("PLEDGED", pledged_cpu=10), queue("SPARE", pledged_cpu=-1)])
    assert refused(house, "B8", priority=800, nucleus="HOME") == {"SPARE"}
    assert refused(house, "B8", priority=799, nucleus="HOME") == set()


def test_b8_without_a_nucleus_does_not_apply() -> None:
    assert refused(TWO_SITES, "B8", priority=900) == set()


def _inactive(
    idle: float | None,
    *,
    waiting: float | None = 10 * HOUR,
    activated: int = 1,
    kind: JobKind = "normal",
    **spec: Any,
) -> World:
    """A queue whose last start was so long ago, and whose activated jobs have waited so long (s)."""
    asked = task(**spec)
    return world(
        federation([queue()]),
        asked,
        jobs=jobs(asked, kind=kind),
        job_counts=jobs_at("Q", activated=activated),
        queue_reports=(
            queue_report(
                "Q",
                last_start=None if idle is None else NOW - idle,
                activated_since=None if waiting is None else NOW - waiting,
            ),
        ),
    )


def test_b9_no_start_for_two_hours_while_activated_jobs_wait() -> None:
    assert refused_in(_inactive(2 * HOUR, priority=800), "B9") == set()
    assert refused_in(_inactive(2 * HOUR + 1, priority=800), "B9") == {"Q"}
    assert refused_in(_inactive(2 * HOUR + 1, priority=800, activated=0), "B9") == set()


def test_b9_never_started_is_not_started_but_jobs_that_have_just_come_are_no_sign() -> None:
    assert refused_in(_inactive(None, priority=800), "B9") == {"Q"}
    assert refused_in(_inactive(None, waiting=2 * HOUR, priority=800), "B9") == set()
    assert refused_in(_inactive(9 * HOUR, waiting=60, priority=800), "B9") == set()
    assert refused_in(_inactive(9 * HOUR, waiting=2 * HOUR + 1, priority=800), "B9") == {"Q"}
    assert refused_in(_inactive(9 * HOUR, waiting=None, priority=800), "B9") == set()


def test_b9_applies_to_high_priority_scouts_merge_jobs_and_what_is_merged_later() -> None:
    late = 3 * HOUR
    assert refused_in(_inactive(late, priority=799), "B9") == set()
    assert refused_in(_inactive(late, kind="scout"), "B9") == {"Q"}
    assert refused_in(_inactive(late, kind="merge", merge=MERGE), "B9") == {"Q"}
    assert refused_in(_inactive(late, merge=MERGE), "B9") == {"Q"}


def test_every_obstacle_of_a_queue_is_shown() -> None:
    house = federation(
        [queue("TEST", status="offline", max_memory=100, cores=8)], storages={"HOME": {"free": 1}}
    )
    choice = only_choice(world(house, task(ram=1000)))
    assert refusals(choice).keys() == {"B1", "B4", "B13", "B15", "B18"}
