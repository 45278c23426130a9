"""Rules switched off and constants changed, for all or for a VO, and limits by global share."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.documents.decision import Choice
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, MergeSpec, Replica, Task
from pilotage.model.values.identity import Identity
from pilotage.policies.brokerage import OptionError
from pilotage.policies.brokerage.production import Production
from pilotage.testing import (
    NOW,
    federation,
    jobs,
    jobs_at,
    queue,
    queue_report,
    task,
    waiting_on_link,
    world,
)
from pilotage.testing.choices import refusals

TIGHT = federation(
    [queue("SMALL", max_memory=100, max_pilots=1), queue("FULL", site="AWAY")], storages={"AWAY": {"free": 1}}
)


def _of(vo: str, number: int, **spec: Any) -> Task:
    return replace(task(number, **spec), owner=Identity(name="alice", vo=vo))


def _choices(state: World, **options: Any) -> list[Choice]:
    return list(Production(options).decide(state).choices)


def test_a_rule_that_is_off_refuses_nobody() -> None:
    state = world(TIGHT, task(ram=1000))
    assert refusals(_choices(state)[0]) == {"B15": {"SMALL"}, "B18": {"FULL"}}
    assert refusals(_choices(state, off=["B15"])[0]) == {"B18": {"FULL"}}
    assert refusals(_choices(state, off=["B15", "B18"])[0]) == {}


def test_a_rule_may_be_off_for_one_vo() -> None:
    state = world(TIGHT, _of("atlas", 1, ram=1000), _of("ligo", 2, ram=1000), _of("", 3, ram=1000))
    options = {"off": ["B18"], "by_vo": {"atlas": {"off": ["B15"]}}}
    assert [refusals(choice) for choice in _choices(state, **options)] == [
        {},
        {"B15": {"SMALL"}},
        {"B15": {"SMALL"}},
    ]


@pytest.mark.parametrize(
    ("constant", "value", "rule", "without", "having"),
    [
        ("memory_compensation", 0.05, "B15", {"SMALL"}, set()),
        ("storage_min_free", 0.5, "B18", {"FULL"}, set()),
        ("nqueued_sat_cap", 9, "B6", set(), {"FULL"}),
        ("nqueued_nuc_cap_for_jobs", 9, "B7", set(), {"FULL"}),
        ("nw_threshold", 1.4, "B27", {"FULL"}, set()),
        ("nw_weight_multiplier", 0.8, "B27", {"FULL"}, set()),
        ("max_diskio_default", 100, "B12", set(), {"SMALL"}),
        ("transferring_limit", 5, "B24", set(), {"SMALL"}),
        ("size_cutoff_to_move_input", 0.5, "B11", set(), {"FULL"}),
        ("num_cutoff_to_move_input", 1, "B11", set(), {"FULL"}),
        ("io_intensity_cutoff", 300, "B11", set(), set()),
        ("nqueue_limit_site", 15, "B36", set(), {"SMALL"}),
        ("nqueue_limit_site_by_share", {"default": 15}, "B36", set(), {"SMALL"}),
    ],
)
def test_each_constant_may_differ_for_one_vo(
    constant: str, value: Any, rule: str, without: set[str], having: set[str]
) -> None:
    spec = {
        "ram": 1000,
        "nucleus": "HOME",
        "processing_type": "urgent",
        "disk_io": 150,
        "io_intensity": 250,
    }
    own, other = _of("atlas", 1, **spec), _of("ligo", 2, **spec)
    state = world(
        TIGHT,
        own,
        other,
        jobs=jobs(own, inputs=("in",)) + jobs(other, first=2, inputs=("in",)),
        files=(File(name="in", size=1_000_000_000, checksum=""),),
        replicas=(Replica(file="in", storage="HOME-DISK"),),
        link_counts=waiting_on_link(10),
        job_counts=jobs_at("SMALL", activated=16, transferring=6),
        queue_reports=(queue_report("SMALL", disk_io=120), queue_report("FULL", disk_io=10)),
    )
    options = {"by_vo": {"atlas": {"constants": {constant: value}}}}
    changed, general = _choices(state, **options)
    assert refusals(changed).get(rule, set()) == having
    assert refusals(general).get(rule, set()) == without


def test_the_link_weight_follows_the_cap_of_the_vo() -> None:
    house = federation([queue("FAR", site="AWAY")])
    state = world(
        house,
        _of("atlas", 1, nucleus="HOME"),
        _of("ligo", 2, nucleus="HOME"),
        link_counts=waiting_on_link(10),
    )
    options = {"by_vo": {"atlas": {"constants": {"nqueued_sat_cap": 20}}}}
    factors = [choice.candidates.factors["B34"][0] for choice in _choices(state, **options)]
    assert factors == pytest.approx([0.5 * (1.5 + 1.3), 0.5 * (2 - 10 / 150 + 1.3)])


def test_how_long_work_is_pending_and_over_how_many_queues_it_spreads_may_differ_for_one_vo() -> None:
    options = {"by_vo": {"atlas": {"constants": {"pending_time": 60, "max_candidates": 1}}}}
    state = world(TIGHT, _of("atlas", 1, ram=1000), _of("ligo", 2, ram=1000))
    wakes = [move.changes["wake_at"] for move in Production(options).decide(state).moves]
    assert wakes == [NOW + 60, NOW + 3600]
    many = federation([queue(name) for name in ("A", "B", "C")])
    one, all_ = _of("atlas", 1), _of("ligo", 2)
    state = world(many, one, all_, jobs=jobs(one, 6) + jobs(all_, 20, first=7))
    assert [len(choice.placed) for choice in _choices(state, **options)] == [1, 3]


def test_b36_the_least_limit_is_that_of_the_global_share() -> None:
    limits = {"nqueue_limit_site": 20, "nqueue_limit_site_by_share": {"gold": 30}}
    house = federation([queue()], constants=limits)
    gold, other = task(1, share="gold"), task(2, share="default")
    state = world(house, gold, other, jobs=jobs(other, 40) + jobs(gold, 40, first=41))
    decision = Production().decide(state)
    assert [move.claims[0].limit for move in decision.moves if move.claims] == [20, 30]
    assert [sum(choice.placed.values()) for choice in decision.choices] == [20, 30]
    crowded = world(house, gold, other, job_counts=jobs_at("Q", activated=21))
    assert [refusals(choice).get("B36") for choice in _choices(crowded)] == [{"Q"}, None]


def test_b3_off_leaves_merge_jobs_free_and_offline_queues_out() -> None:
    merge = MergeSpec(command=("merge",), outputs=("all",), walltime=60)
    asked = task(merge=merge)
    state = world(
        federation([queue("NEAR"), queue("FAR", site="AWAY", status="offline")]),
        asked,
        jobs=jobs(asked, kind="merge", inputs=("in",)),
        files=(File(name="in", size=1, checksum=""),),
        replicas=(Replica(file="in", storage="AWAY-DISK"),),
    )
    assert refusals(_choices(state)[0]) == {"B3": {"NEAR"}, "B4": {"FAR"}}
    assert refusals(_choices(state, off=["B3"])[0]) == {"B4": {"FAR"}}


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({"off": ["B99"]}, ("off", 0), "no rule 'B99' can be switched off; known: "),
        ({"off": ["B15", "B2"]}, ("off", 1), "no rule 'B2' can be switched off"),
        ({"off": ["B36"]}, ("off", 0), "no rule 'B36' can be switched off"),
        ({"off": "B15"}, ("off",), "should be a valid"),
        ({"speed": 11}, ("speed",), "there is no such option; known: off, by_vo"),
        ({"by_vo": {"atlas": {"of": []}}}, ("by_vo", "atlas", "of"), "known: off, constants"),
        ({"by_vo": {"atlas": {"off": ["b15"]}}}, ("by_vo", "atlas", "off", 0), "no rule 'b15'"),
        (
            {"by_vo": {"atlas": {"constants": {"pending": 1}}}},
            ("by_vo", "atlas", "constants", "pending"),
            "there is no such option; known: nqueued_sat_cap",
        ),
        (
            {"by_vo": {"atlas": {"constants": {"pending_time": -1}}}},
            ("by_vo", "atlas", "constants", "pending_time"),
            "greater than or equal to 0",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused_with_their_place(
    options: dict[str, Any], path: tuple[str | int, ...], message: str
) -> None:
    with pytest.raises(OptionError) as refused:
        Production(options)
    assert refused.value.path == path
    assert message in refused.value.message


def test_options_by_vo_keep_the_order_and_every_job() -> None:
    house: Federation = federation([queue(num_slots=2)])
    work = [_of("atlas" if number % 2 else "ligo", number, priority=100 * number) for number in (1, 2, 3)]
    state = world(house, *work)
    options = {"by_vo": {"atlas": {"off": ["B24"]}}}
    decision = Production(options).decide(state)
    assert [choice.task for choice in decision.choices] == [3, 2, 1]
    assert [move.target for move in decision.moves] == [JobState.ACTIVATED] * 3
