"""Deciding again with changes: from the same world, touching nothing, refusing what cannot be."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilotage.explain.comparison import FieldChange, WhatIf
from pilotage.federation.faults import BadDocument, field_name
from pilotage.flow.calls.work import what_if
from pilotage.flow.calls.work.task_fields import changes_of_jobs
from pilotage.flow.calls.work.what_if import Changes
from pilotage.model.documents.serialization import from_json, to_document, to_json
from pilotage.model.documents.world import World
from pilotage.model.records.federation import ComputingElement, GlobalShare
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import Measured, MergeSpec, TaskSpec
from pilotage.policies.tasks import changing
from pilotage.store import JobView
from pilotage.testing import federation, jobs, jobs_at, queue, task, world
from tests.properties import examples

from .house import House

HOUSE = replace(
    federation(
        [queue("SMALL", max_memory=2000), queue("LARGE", max_memory=16000), queue("SHUT", status="offline")]
    ),
    shares=(GlobalShare(name="default"), GlobalShare(name="urgent"), GlobalShare(name="foreign", vo="cms")),
)


def asked(count: int = 3, **spec: Any) -> World:
    work = task(**{"ram": 4000, "base_ram": 100, **spec})
    return world(HOUSE, work, jobs=jobs(work, count))


def decide(state: World, changed: dict[str, dict[str, Any]] | None = None, **values: Any) -> WhatIf:
    return what_if.decide(state, Changes(task=values, queues=changed or {}))


def faults(state: World, changed: dict[str, dict[str, Any]] | None = None, **values: Any) -> dict[str, str]:
    with pytest.raises(BadDocument) as caught:
        decide(state, changed, **values)
    return {field_name(fault.path): fault.text for fault in caught.value.faults}


def of(house: House, task: int) -> list[JobView]:
    return house.store.queries.jobs(task, None, 10_000)


def seen(state: World, **values: Any) -> TaskSpec:
    """What the jobs of a changed world ask for."""
    other = what_if.changed(state, Changes(task=values))
    (work,), first = other.tasks, other.jobs[0]
    return work.changed(first.changes, first.kind).expected(first.kind)


def placed(choices: Any) -> dict[str, int]:
    return {name: jobs for choice in choices for name, jobs in choice.placed.items()}


def test_without_changes_both_sides_are_alike() -> None:
    found = decide(asked())
    assert found.before == found.after
    assert (found.changes, found.opened, found.closed) == ((), (), ())


def test_a_task_that_asks_for_less_opens_queues() -> None:
    found = decide(asked(ram=20000), ram=1000)
    assert (placed(found.before), found.before[0].candidates.queues) == ({}, ())
    assert sum(placed(found.after).values()) == 3
    assert (found.opened, found.closed) == (("LARGE", "SMALL"), ())
    assert found.changes == (FieldChange(field="ram", before=20000, after=1000),)


def test_a_task_that_asks_for_more_closes_them() -> None:
    assert decide(asked(), ram=20000).closed == ("LARGE",)


def test_a_queue_can_be_changed_beside_the_task() -> None:
    found = decide(asked(), {"SHUT": {"status": "online"}, "SMALL": {"max_memory": 0}}, priority=900)
    assert found.opened == ("SHUT", "SMALL")
    assert [change.field for change in found.changes] == ["priority", "SHUT.status", "SMALL.max_memory"]
    assert [change.before for change in found.changes] == [500, "offline", 2000]


@pytest.mark.parametrize("cores", [1, 4])
def test_memory_is_all_that_a_job_may_use(cores: int) -> None:
    state = asked(cores=cores, base_ram=500)
    spec = seen(state, memory=2222)
    assert (spec.memory, spec.ram, spec.ram_unit, spec.base_ram) == (2222, 2222, "MB", 0)
    assert decide(state, memory=2222).changes == (
        FieldChange(field="memory", before=500 + 4000 * cores, after=2222),
    )
    assert decide(state, memory=2222).opened == (("SMALL",) if cores == 1 else ())


@pytest.mark.parametrize("own", [{}, {"ram": 2000}])
@pytest.mark.parametrize("earlier", ["", '{"ram":3000}'])
@pytest.mark.parametrize("field", ["ram", "memory", "walltime"])
def test_what_if_says_of_merge_jobs_what_set_would_do(own: dict[str, Any], earlier: str, field: str) -> None:
    merge = MergeSpec(command=("merge",), outputs=("all",), **own)
    work = replace(task(ram=4000, merge=merge, outputs=("one",), command=("run",)), state=TaskState.MERGING)
    (job,) = jobs(work, 1)
    state = world(HOUSE, work, jobs=(replace(job, kind="merge", changes=earlier),))
    assert getattr(seen(state, **{field: 8000}), field) == 8000
    values = changes_of_jobs(state, state.jobs, {field: 8000})
    (set_to,) = changing.change(state, values, "user:alice").moves
    (other,) = what_if.changed(state, Changes(task={field: 8000})).jobs
    assert set_to.changes.items() >= {"changes": other.changes, "requirements": other.requirements}.items()
    assert what_if.decide(state, Changes(task={field: 8000})).changes[0].before == getattr(
        work.changed(earlier, "merge").expected("merge"), field
    )


def test_what_is_said_counts_more_than_what_scouts_measured() -> None:
    state = asked(cpu_time=1, walltime=50)
    measured = Measured(finished=3, memory=9000, cpu_time=7, walltime=8, base_time=9, work_disk=5, out_disk=6)
    (scouted,) = (replace(item, measured=measured) for item in state.tasks)
    state = replace(state, tasks=(scouted,))
    found = decide(state, memory=2000)
    assert found.changes[0].before == 9000
    assert found.opened == ("SMALL",)
    other = seen(state, cpu_time=2, work_disk=3, cores=2)
    assert (other.cpu_time, other.work_disk, other.cores) == (2, 3, 2)
    assert (other.memory, other.base_time, other.out_disk) == (9000, 9, 6)


def test_jobs_get_the_priority_and_share_of_their_task() -> None:
    other = what_if.changed(asked(), Changes(task={"priority": 900, "share": "urgent"}))
    assert {(job.priority, job.share) for job in other.jobs} == {(900, "urgent")}
    kept = what_if.changed(asked(), Changes(task={"ram": 1}))
    assert [(job.priority, job.share) for job in kept.jobs] == [
        (job.priority, job.share) for job in asked().jobs
    ]


def test_a_field_that_stays_changes_beside_one_that_may_change() -> None:
    other = what_if.changed(asked(), Changes(task={"ram": 1500, "brokerage": "matchmaking"}))
    assert other.tasks[0].spec.brokerage == "matchmaking"
    assert seen(asked(), ram=1500, brokerage="matchmaking").ram == 1500


def test_another_plugin_can_be_asked() -> None:
    assert decide(asked(), brokerage="production").after == decide(asked()).after
    assert faults(asked(), brokerage="produktion") == {
        "brokerage": "there is no brokerage plugin 'produktion'; did you mean production?"
    }


@pytest.mark.parametrize(
    ("queues", "values", "told"),
    [
        ({}, {"rm": 1}, {"rm": "there is no such field; did you mean ram?"}),
        ({}, {"memry": 1}, {"memry": "there is no such field; did you mean memory?"}),
        ({}, {"ram": "lots"}, {"ram": "'lots' is not a number; give MB, without quotes"}),
        ({}, {"memory": -1}, {"memory": "-1 is below 0; give MB"}),
        ({}, {"memory": None}, {"memory": "nothing is not a number; give MB, without quotes"}),
        (
            {},
            {"ram": 1, "memory": 2},
            {"memory": "is all that a job may use, in MB, and stands for ram too; give one"},
        ),
        ({}, {"priority": 0}, {"priority": "0 is below 1; give 1 or more"}),
        (
            {},
            {"jobs": 9},
            {"jobs": "would make other jobs, and these are made; plan the other task: pilotage "},
        ),
        ({}, {"nucleus": "HOEM"}, {"nucleus": "there is no site 'HOEM'; did you mean HOME?"}),
        ({}, {"queues": ["LARG"]}, {"queues[0]": "there is no queue 'LARG'; did you mean LARGE?"}),
        ({}, {"share": "foreign", "cores": 2}, {}),
        (
            {},
            {"max_cores": 1, "cores": 2},
            {"max_cores": "1 is below the 2 cores asked; give 2 or more, or 0 "},
        ),
        ({"LARG": {"cores": 1}}, {}, {"LARG": "there is no such queue; did you mean LARGE?"}),
        (
            {"nothing like it": {}},
            {},
            {"nothing like it": "there is no such queue; pilotage queues lists them"},
        ),
        (
            {"LARGE": {"max_memry": 1}},
            {},
            {"LARGE.max_memry": "there is no such field; did you mean max_memory?"},
        ),
        ({"LARGE": {"memory": 1}}, {}, {"LARGE.memory": "there is no such field; did you mean "}),
        ({"LARGE": {"cores": -1}}, {}, {"LARGE.cores": "-1 is below 0; give 0 or more"}),
        ({"LARGE": {"status": "onlin"}}, {}, {"LARGE.status": "'onlin' is none of online, "}),
        ({"LARGE": {"site": "nowhere"}}, {}, {"LARGE.site": "there is no site 'nowhere'; known: HOME"}),
        (
            {"LARGE": {"min_memory": 1e6}},
            {},
            {"LARGE.min_memory": "1e+06 MB is above the max_memory of 16000 MB"},
        ),
        (
            {"LARGE": {"name": "HUGE"}},
            {},
            {"LARGE.name": "is what the queue is known by; change another field"},
        ),
        (
            {"LARGE": {"cores": "x"}},
            {"ram": -1},
            {"LARGE.cores": "'x' is not a whole number", "ram": "-1 is below 0"},
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_be_right(
    queues: dict[str, dict[str, Any]], values: dict[str, Any], told: dict[str, str]
) -> None:
    if "share" in values:
        told = {"share": "'foreign' belongs to the VO cms; give one of default, urgent"}
    found = faults(asked(), queues, **values)
    assert found.keys() == told.keys()
    for name, text in told.items():
        assert found[name].startswith(text)


def test_faults_that_the_task_has_already_do_not_stand_in_the_way() -> None:
    state = asked(nucleus="GONE", share="lost")
    assert decide(state, ram=1000).opened == decide(asked(), ram=1000).opened
    assert faults(state, share="lots") == {
        "share": "there is no share 'lots'; known: default, foreign, urgent"
    }


def test_how_pilots_reach_a_queue_is_not_told() -> None:
    secret = ComputingElement(options={"password": "hush"})
    house = federation([queue("Q", computing_element=secret)])
    state = world(house, task())
    found = decide(state, {"Q": {"computing_element": None}})
    assert "hush" not in to_json(found).decode()
    assert found.closed == ("Q",)


relaxed = settings(
    deadline=None,
    max_examples=examples(0.5),
    suppress_health_check=[HealthCheck.too_slow],
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "ram": st.sampled_from([0, 1000, 4000, 20000]),
        "cores": st.integers(0, 9),
        "priority": st.sampled_from([1, 500, 900, 1000]),
        "queues": st.sampled_from([[], ["SHUT"], ["SMALL", "LARGE"]]),
        "nucleus": st.sampled_from(["", "HOME"]),
    },
)


@relaxed
@given(VALUES, st.sampled_from([{}, {"SHUT": {"status": "online"}}, {"SMALL": {"max_memory": 99999}}]))
def test_both_sides_are_what_the_brokerage_decides_and_come_back_as_they_went(
    values: dict[str, Any], queues: dict[str, dict[str, Any]]
) -> None:
    state = asked()
    before = to_json(state)
    found = decide(state, queues, **values)
    assert to_json(state) == before
    assert to_json(decide(state, queues, **values)) == to_json(found)
    assert to_json(from_json(WhatIf, to_json(found))) == to_json(found)
    fit, would_fit = (
        {name for choice in choices for name in choice.candidates.queues}
        for choices in (found.before, found.after)
    )
    assert (set(found.opened), set(found.closed)) == (would_fit - fit, fit - would_fit)
    for choices in (found.before, found.after):
        assert sum(len(choice.jobs) + choice.left for choice in choices) == 3


def test_what_is_full_without_the_tasks_own_jobs_stays_full() -> None:
    state = replace(
        asked(ram=100), job_counts=(*jobs_at("SMALL", activated=50), *jobs_at("LARGE", activated=50))
    )
    assert placed(decide(state).after) == {}
    assert sum(placed(decide(state, {"SMALL": {"num_slots": 100}}).after).values()) == 3


def test_a_stored_task_is_decided_again_and_nothing_is_touched(house: House) -> None:
    house.federate(max_memory=2000)
    task = house.task(jobs=4, ram=16000)
    house.take("broker")
    assert {job.state for job in of(house, task)} == {JobState.PENDING}
    house.now += 5
    before = to_document(house.store.snapshots.whole(house.now, 1)), of(house, task)
    found = what_if.run(house.runtime, Changes(task={"memory": 1000}), task)
    assert (placed(found.before), placed(found.after)) == ({}, {"north-queue": 4})
    assert (found.time, found.opened) == (house.now, ("north-queue",))
    assert (to_document(house.store.snapshots.whole(house.now, 1)), of(house, task)) == before


def test_jobs_that_are_placed_already_are_decided_again(house: House) -> None:
    task = house.task(jobs=4)
    house.take("broker")
    assert {job.state for job in of(house, task)} == {JobState.ACTIVATED}
    found = what_if.run(house.runtime, Changes(queues={"north-queue": {"status": "offline"}}), task)
    assert (placed(found.before), placed(found.after)) == ({"north-queue": 4}, {})
    (one, *_) = of(house, task)
    alone = what_if.run(house.runtime, Changes(), task, one.id)
    assert [choice.jobs for choice in alone.after] == [(one.id,)]


def test_a_task_that_is_not_split_yet_is_decided_as_if_it_were(house: House) -> None:
    ((_, task),) = house.submit({"jobs": 4, "ram": 16000}).tasks
    found = what_if.run(house.runtime, Changes(task={"ram": 100}), task)
    assert placed(found.after) == {"north-queue": 4}
    assert of(house, task) == []


def test_of_a_large_task_no_more_is_decided_than_a_pass_takes(house: House) -> None:
    task = house.task(jobs=1500)
    found = what_if.run(house.runtime, Changes(), task)
    assert sum(len(choice.jobs) + choice.left for choice in found.after) == 1000
