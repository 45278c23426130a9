"""Explanations: the table of obstacles, the cheapest change, placements with runner-up and margin."""

import json
from dataclasses import fields, replace

import pytest

from pilotage.explain.analysis import Explanation, explain, first_obstacle, group_repeats
from pilotage.explain.rendering import lines, of_choices, of_planned
from pilotage.explain.words import shortened
from pilotage.model.documents.decision import Asked, Candidates, Choice, DatedChoice, Refusal
from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.records.work import JobKind
from pilotage.testing import federation, jobs, jobs_at, measured, queue, task, world
from pilotage.testing.choices import decide, only_choice

QUEUES = tuple(f"Q{number:02}" for number in range(42))


REFUSALS = (
    Refusal(
        rule="B4",
        name="status",
        mend="operator",
        queues=QUEUES[7:11],
        have=("offline",) * 4,
        need="online",
    ),
    Refusal(
        rule="B15",
        name="memory",
        mend="user",
        queues=QUEUES[:31],
        have=(12000.0, 12000.0, *(8000.0,) * 29),
        need=16000.0,
        unit="MB",
        asked=(Asked(field="ram", value=16000.0, each=1.0),),
    ),
    Refusal(
        rule="B18",
        name="storage",
        mend="wait",
        queues=(*QUEUES[11:18], *QUEUES[31:33]),
        have=(*(500.0,) * 7, 1100.0, 900.0),
        need=2000.0,
        unit="GB",
        lifted_by="transfers drain",
    ),
    Refusal(
        rule="B22",
        name="connectivity",
        mend="user",
        queues=(*QUEUES[18:31], *QUEUES[33:]),
        have=("none",) * 22,
        need="full",
        lifted_by="ask for less connectivity",
    ),
    Refusal(
        rule="B36",
        name="waiting jobs",
        mend="wait",
        queues=QUEUES[33:],
        have=(50.0,) * 9,
        need=(20.0,) * 9,
    ),
)
"""31 queues lack memory, 7 of them nothing else; 9 lack space, 2 of them nothing else; 4 are offline."""

NOWHERE = Choice(
    task=4711,
    job_kind="normal",
    jobs=(1, 2),
    placed={},
    considered=42,
    candidates=Candidates(),
    refusals=REFUSALS,
)


def test_the_table_says_what_stands_in_the_way_where_alone_and_who_can_mend_it() -> None:
    assert lines(explain(NOWHERE), world="1893", rules=True) == [
        "task 4711, jobs 1-2: none of 42 queues can take them (world 1893)",
        "  memory          31 queues  need 16000 MB, best 12000   the only obstacle at 7 of them   "
        "you: ask for ram: 12000",
        "  storage          9 queues  need 2000 GB, best 1100     the only obstacle at 2 of them   "
        "wait: transfers drain",
        "  connectivity    22 queues                                                               "
        "you: ask for less connectivity",
        "  waiting jobs     9 queues  need 20, best 50                                             wait",
        "  status           4 queues                                                               operator",
        "  cheapest change: memory (B15), you: ask for ram: 12000; opens 2 queues: Q00, Q01",
    ]


def test_the_cheapest_change_is_the_users_smallest() -> None:
    cheapest = explain(NOWHERE).cheapest
    assert cheapest is not None
    assert (cheapest.rule, cheapest.mend, cheapest.queues) == ("B15", "user", ("Q00", "Q01"))


def test_what_only_waiting_lifts_names_the_event() -> None:
    choice = only_choice(world(federation([queue()]), task(), job_counts=jobs_at("Q", activated=30)))
    cheapest = explain(choice).cheapest
    assert cheapest is not None
    assert (cheapest.rule, cheapest.mend, cheapest.event) == ("B36", "wait", "jobs of the queue start")
    assert lines(explain(choice), rules=True) == [
        "task 1, job 1: 1 job waits until the only queue considered has room",
        "  waiting jobs    1 queue  need 20 jobs, best 30   the only obstacle there   "
        "wait: jobs of the queue start",
        "  cheapest change: waiting jobs (B36), wait: jobs of the queue start; opens 1 queue: Q",
    ]


def test_where_two_obstacles_stand_everywhere_no_single_change_helps() -> None:
    house = federation([queue(status="offline", max_memory=100)])
    text = lines(explain(only_choice(world(house, task(ram=1000)))))
    assert text == [
        "task 1, job 1: the only queue considered cannot take it",
        "  status    1 queue                                            operator: pilotage queues open, or status: online in the federation's file",  # noqa: E501
        "  memory    1 queue  1000 MB asked, 900 counted, best 100      you: ask for ram: 100",
        "  no single change opens a queue",
    ]


def test_a_need_that_differs_by_queue_is_told_for_the_nearest() -> None:
    house = federation(
        [queue("SLOW", core_power=10, max_walltime=100), queue("FAST", core_power=20, max_walltime=100)]
    )
    (obstacle,) = explain(only_choice(world(house, task(cpu_time=2700)))).obstacles
    assert (obstacle.rule, obstacle.need, obstacle.best, obstacle.queues) == ("B21", 150.0, 100.0, 2)


def test_a_placement_shows_every_factor_the_runner_up_and_the_margin() -> None:
    house = federation([queue("BIG", num_slots=29), queue("SMALL", num_slots=9), queue("TINY", num_slots=4)])
    asked = task()
    explanation = explain(only_choice(world(house, asked, jobs=jobs(asked, 10))))
    assert explanation.placed == {"BIG": 10}
    assert (explanation.runner_up, explanation.decided_by) == ("SMALL", "B32")
    assert explanation.margin == pytest.approx(2 / 3)
    assert [(rank.queue, rank.jobs) for rank in explanation.ranks] == [("BIG", 10), ("SMALL", 0), ("TINY", 0)]
    assert lines(explanation, rules=True) == [
        "task 1, jobs 1-10: 10 jobs placed; 3 of 3 queues can take them",
        "  BIG        10 jobs   weight 3 = load 3 (B32) x data 1 (B33) x network 1 (B34)",
        "  SMALL       0 jobs   weight 1 = load 1 (B32) x data 1 (B33) x network 1 (B34)"
        "; other queues take all the jobs",
        "  TINY        0 jobs   weight 0.5 = load 0.5 (B32) x data 1 (B33) x network 1 (B34)"
        "; other queues take all the jobs",
        "  runner-up SMALL, 66.7 % behind, most by load (B32)",
    ]


def test_of_placed_jobs_the_refusals_are_told_in_short_and_of_many_candidates_how_many_more() -> None:
    fit = [queue(f"Q{number:02}") for number in range(14)]
    house = federation([*fit, queue("TINY", max_memory=100), queue("GONE", status="offline")])
    text = lines(explain(only_choice(world(house, task(ram=1000)))))
    assert text[0] == "task 1, job 1: 1 job placed; 14 of 16 queues can take it"
    shown = [line.split()[0] for line in text[1:11]]
    assert len(set(shown)) == 10
    assert set(shown) < {item.name for item in fit}
    assert text[11] == "  and 4 more"
    assert text[-1] == "  refused: status (1 queue), memory (1 queue)"


@pytest.mark.parametrize(("kind", "subject"), [("scout", "scouts 1-3, 7"), ("merge", "merge jobs 1-3, 7")])
def test_the_jobs_of_a_decision_are_named_by_kind(kind: JobKind, subject: str) -> None:
    choice = replace(NOWHERE, job_kind=kind, jobs=(1, 7, 2, 3))
    assert lines(explain(choice))[0].startswith(f"task 4711, {subject}: none of 42 queues can take them")


def test_numbers_in_very_many_runs_are_cut_short() -> None:
    assert shortened(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, ... (20 in all)"
    assert shortened([5]) == "5"


def test_decisions_that_differ_in_their_jobs_only_stand_together() -> None:
    other = dated(replace(NOWHERE, considered=43), 0)
    choices = [dated(replace(NOWHERE, jobs=(job,)), 1e9 + job) for job in (347, 346, 345)]
    first, second = group_repeats([choices[0], other, *choices[1:]])
    assert (first, second) == (choices, [other])
    told = of_choices(choices)
    assert told[0] == (
        "task 4711, jobs 345-347: 3 decisions alike, each: none of 42 queues can take them "
        "(world of 2001-09-09 01:52:25 UTC to 2001-09-09 01:52:27 UTC)"
    )
    assert sum("none of" in line for line in told) == 1


def test_decisions_alike_tell_what_each_of_them_left() -> None:
    full = only_choice(world(federation([queue()]), task(), job_counts=jobs_at("Q", activated=20)))
    pair, single = (dated(replace(full, jobs=jobs), 0) for jobs in ((1, 2), (9,)))
    told = [line for line in of_choices([pair, replace(pair, jobs=(2, 3)), single]) if line[0] != " "]
    assert [line.partition(",")[2].partition(": each queue")[0] for line in told] == [
        " jobs 1-3: 2 decisions alike, each: 2 jobs wait",
        " job 9: 1 job waits",
    ]


def dated(choice: Choice, time: float) -> DatedChoice:
    return DatedChoice(time=time, **{part.name: getattr(choice, part.name) for part in fields(choice)})


def test_what_pre_assignment_set_aside_is_told() -> None:
    choice = only_choice(world(federation([queue(status="offline")]), task(queues=("Q",))))
    assert lines(explain(choice))[-1] == "  status would have refused 1 queue, but the task names them"


def test_queues_that_are_full_of_waiting_jobs_are_not_called_unfit() -> None:
    choice = only_choice(world(federation([queue()]), task(), job_counts=jobs_at("Q", activated=20)))
    assert (
        lines(explain(choice))[0]
        == "task 1, job 1: 1 job waits: each queue that can take it has enough waiting jobs"
    )


def test_jobs_that_a_guard_stopped_are_not_said_to_lack_room() -> None:
    fitting = Candidates(queues=("GOOD",), weights=(1.0,))
    refused = replace(NOWHERE.refusals[0], queues=("BAD",), have=NOWHERE.refusals[0].have[:1])
    choice = replace(NOWHERE, jobs=(1, 2), considered=2, candidates=fitting, refusals=(refused,))
    text = lines(explain(choice))
    assert text[0] == (
        "task 4711, jobs 1-2: 2 jobs wait: the queue that their plugin chose refuses them; "
        "1 of 2 queues can take them"
    )
    assert refused.name in text[1]
    assert first_obstacle(choice) == explain(choice).obstacles[0]


def test_an_explanation_is_plain_data() -> None:
    explanation = explain(NOWHERE)
    assert from_json(Explanation, to_json(explanation)) == explanation
    assert json.loads(to_json(explanation))["obstacles"][0]["rule"] == "B15"


def test_a_choice_read_from_the_store_explains_itself_alike() -> None:
    assert lines(explain(from_json(Choice, to_json(NOWHERE)))) == lines(explain(NOWHERE))


def test_a_full_candidate_is_neither_the_winner_nor_the_runner_up() -> None:
    candidates = Candidates(
        queues=("FULL", "WON", "NEXT", "BEYOND"),
        weights=(4.0, 3.0, 2.0, 1.0),
        factors={"B32": (4.0, 3.0, 2.0, 1.0)},
        room=(0, 5, 5, 5),
        most=2,
    )
    choice = replace(NOWHERE, placed={"WON": 1}, candidates=candidates, refusals=())
    found = explain(choice)
    assert [rank.why for rank in found.ranks] == [
        "full after earlier jobs of this pass",
        "",
        "other queues take all the jobs",
        "not among the best 2 with room",
    ]
    assert found.runner_up == "NEXT"
    assert found.margin == pytest.approx(1 / 3)
    assert lines(found)[1].endswith("load 4; full after earlier jobs of this pass")


def test_scouts_that_only_the_nucleus_takes_are_advised_to_be_left_out() -> None:
    house = federation([queue("NEAR"), queue("FAR", site="AWAY")])
    asked = task(nucleus="HOME", walltime=60, scouts=3)
    full = measured(house, HOME=1)
    choice = only_choice(world(house, asked, jobs=jobs(asked, kind="scout"), storage_spaces=full))
    assert "you: ask for scouts: 0" in " ".join(lines(explain(choice)))


def test_a_plan_begins_with_the_sum_of_its_choices() -> None:
    house = federation([queue("home", num_slots=20), queue("lab", num_slots=5)])
    asked = task(jobs=30, command=("run",), walltime=60)
    state = world(house, asked, jobs=jobs(asked, 10, kind="scout") + jobs(asked, 20, first=11))
    told = of_planned("sim", decide(state).choices)
    assert told[0].startswith("sim: 30 jobs: home ")
    assert "scouts)" in told[0]


def test_scouts_that_fit_nowhere_are_told_in_the_sum() -> None:
    asked = task(walltime=60)
    both = (*jobs(asked, 2, kind="scout"), *(replace(job, id=job.id + 10) for job in jobs(asked, 3)))
    state = world(federation([queue("SHORT", max_walltime=7200)]), asked, jobs=both)
    told = of_planned("sim", decide(state).choices)
    assert told[0] == "sim: 5 jobs: SHORT 3, 2 nowhere yet (2 scouts; the others wait for them)"


def test_changes_that_help_only_together_are_told_where_the_user_can_make_them_all() -> None:
    house = federation([queue("NEAR", max_walltime=7200), queue("FAR", max_walltime=60, status="offline")])
    asked = task()
    text = lines(explain(only_choice(world(house, asked, jobs=jobs(asked, kind="scout")))))
    assert text[-1] == (
        "  these changes together open NEAR: you: ask for scouts: 0; say the walltime or CPU time"
    )


def test_what_the_user_can_lift_everywhere_opens_every_queue() -> None:
    house = federation([queue("LONG", max_walltime=7200), queue("SHORT", max_walltime=60)])
    cheapest = explain(only_choice(world(house, task()))).cheapest
    assert cheapest is not None
    assert cheapest.queues == ("LONG", "SHORT")
