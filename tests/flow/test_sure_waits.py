"""Warnings of what will surely wait, in the words of the checks that decide, for as long as they are true."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.explain.remarks import sentence
from pilotage.flow.calls.work import sure_waits
from pilotage.flow.calls.work.changes import Wanted, set_fields
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.moves import PATIENCE
from pilotage.model.records.states import JobState

from .house import House
from .test_unable_servers import LACKS, Lacking, server

DAY = 86_400


def warned(house: House, task: int, runtime: Runtime | None = None) -> list[str]:
    found = house.store.queries.task(task)
    assert found is not None
    return [*map(sentence, sure_waits.of_task(runtime or house.runtime, found))]


def brokered(house: House, **spec: Any) -> int:
    task = house.task(command=("true",), **spec)
    house.take("broker")
    return task


def broker_again(house: House) -> None:
    house.now += 61
    house.take("lift")
    house.take("broker")


def storages(house: House, **fields: Any) -> None:
    made = house.store.federation()
    north, south = made.storages
    house.store.save_federation(replace(made, storages=(replace(north, **fields), south)), "test")


@pytest.mark.parametrize(
    ("spec", "what", "rule"),
    [
        ({}, "its jobs", "walltime unknown"),
        ({"walltime": 60, "scouts": 2, "jobs": 50}, "its scouts", "long enough for scouts"),
        ({"walltime": 60, "container_name": "docker://alpine", "only_tags": True}, "its jobs", " at 1 queue"),
        ({"walltime": 60, "ram": 9000}, "its jobs", "memory at"),
    ],
)
def test_what_no_queue_takes_until_somebody_acts_is_said_of_a_task(
    house: House, spec: dict[str, Any], what: str, rule: str
) -> None:
    house.federate(max_walltime=7200, max_memory=4000, releases=("AUTO",))
    task = brokered(house, **spec)
    (told,) = warned(house, task)
    assert told.startswith(f"no queue takes {what} until somebody acts: ")
    assert rule in told
    house.federate(max_walltime=2 * DAY, max_memory=10_000, containers=("any",), tags=())
    broker_again(house)
    if "only_tags" not in spec:
        assert warned(house, task) == [], "it is true no more"


def test_b18_too_little_declared_space_is_said_until_more_is_declared(house: House) -> None:
    storages(house, free=5, storage_min_free=None)
    task = brokered(house, walltime=60)
    (told,) = warned(house, task)
    assert "declared storage" in told
    assert "(200 GB needed, 5 there at most)" in told
    storages(house, free=500)
    broker_again(house)
    assert warned(house, task) == []


def test_refusals_of_a_changed_task_are_said_once_its_jobs_are_brokered_again(house: House) -> None:
    house.federate(max_memory=4000)
    task = brokered(house, walltime=60, ram=9000)
    for ram in (8000, 2000):
        house.take("broker")
        set_fields(house.runtime, task, Wanted(fields={"ram": ram}, anyway=True), "alice")
        assert warned(house, task) == [], "the brokerage has yet to decide"
        house.take("broker")
        told = warned(house, task)
        assert len(told) == (ram > 4000)
        assert all(f"memory at 1 queue ({ram * 0.9:.0f} MB needed" in one for one in told)


def test_what_only_waits_for_its_turn_is_no_warning(house: House) -> None:
    house.federate(num_slots=0)
    tasks = [brokered(house, jobs=500, walltime=60), brokered(house, walltime=60)]
    for _ in range(2):
        house.take("split")
        house.take("broker")
        house.now += PATIENCE
    assert house.states(tasks[0]).get(JobState.PENDING) or house.states(tasks[1]).get(JobState.PENDING)
    assert [warned(house, task) for task in tasks] == [[], []]


def test_files_that_this_server_cannot_move_are_said_and_not_where_another_can(house: House) -> None:
    storages(house, url="memory://north")
    task = brokered(house, walltime=60, outputs=("a",), nucleus="north")
    (told,) = warned(house, task, server(house, Lacking))
    assert told.startswith("this server cannot bring its outputs from north-disk to north-disk: ")
    assert LACKS in told
    assert warned(house, task, server(house)) == []


def test_alike_tasks_of_a_submission_are_warned_of_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house.store, "matches_begin", lambda: house.now + 60)
    many = house.submit(*({"command": ("true",), "name": f"t{number}"} for number in range(50)))
    (told,) = sure_waits.of_submitted(house.runtime, [id_ for _, id_ in many.tasks])
    assert told.startswith("task 1 t0: nothing starts before ")


def test_a_federation_is_warned_of_in_the_words_of_the_checks_that_decide(house: House) -> None:
    made = house.store.federation()
    assert sure_waits.of_federation(made).keys().isdisjoint({"B18", "B20"})
    poor = replace(
        made,
        storages=tuple(replace(one, free=5, storage_min_free=None) for one in made.storages),
        queues=tuple(replace(one, max_walltime=7200) for one in made.queues),
    )
    found = sure_waits.of_federation(poor)
    assert [one.queues for one in found["B18"]] == [("north-queue",)]
    assert [one.queues for one in found["B20"]] == [("north-queue",)]
