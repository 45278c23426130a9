"""A saved world holds every field that a step reads, so that any decision can be repeated from it."""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any, cast, get_args, get_type_hints

import pytest
from sqlalchemy import Double, Integer, func, select, update

from pilotage.flow.planning import plan
from pilotage.flow.reads import OUTSIDE
from pilotage.flow.step import Step, read_world
from pilotage.flow.steps import STEPS
from pilotage.model.documents.serialization import canonical_json, from_json, to_json
from pilotage.model.documents.world import World
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.states import JobState
from pilotage.model.records.work import InputFile
from pilotage.store.jobs.table import jobs
from pilotage.store.pilots.table import pilots
from pilotage.store.tasks.table import tasks
from pilotage.store.transfers.table import transfers

from .house import House, attempts
from .test_matchmaking import federate

OF_THIS_PROCESS = {*OUTSIDE, "unable", "time", "seed"}
"""What one process alone knows, beside the store."""

AMONG_JOBS = {"ahead", "held_places"}
"""What a saved world holds among its jobs: there they are as if DEFINED, and compete."""

LOOPED = [step for step in STEPS if step.has_loop]
TABLES = {"jobs": jobs, "tasks": tasks, "transfers": transfers, "pilots": pilots}


def _lived(house: House) -> None:
    """Let jobs be in many states, with other people's failures and limits."""
    house.federate(computing_element=ComputingElement(kind="fake", max_pilots=9, pilot_slots=2))
    federate(house, max_jobs=9)
    house.take("advertise")
    production: dict[str, Any] = {"command": ("true",), "brokerage": "production"}
    file = InputFile(name="raw", size=5, replicas=("south-disk",))
    house.task(jobs=1, inputs=(file,), outputs=("out",), **production)
    house.task(jobs=12, scouts=2, walltime=60.0, **production)
    house.task(jobs=4, outputs=("o",), **production)
    for name in ("broker", "stage", "provision"):
        house.take(name)
    pilot = house.pilot(site="north")
    held = attempts(house.match(pilot, 3))
    house.report(pilot, "running", held)
    house.report(pilot, "failed", held[:1])
    house.report(pilot, "done", held[1:2])
    house.task(jobs=9, priority=900)
    for name in ("broker", "provision", "stage", "survey", "notify", "clean"):
        house.take(name)
    house.task(jobs=4, priority=10, **production)
    house.submit({"command": ("true",), "jobs": 3})
    house.now += 5


def _fill(house: House) -> None:
    """Give every number of a record that is usual in all rows another value, by the record's declaration."""

    def work(connection: Any) -> None:
        for name, table in TABLES.items():
            newest = select(func.max(table.c.id)).scalar_subquery()
            for part in _numbers(name):
                column, usual = table.c[part.name], cast(Any, part.default)
                if set(connection.scalars(select(column))) <= {usual, None}:
                    value = house.now - 1.0 if isinstance(column.type, Double) else (usual or 0) + 1
                    connection.execute(update(table).where(table.c.id == newest).values({part.name: value}))

    house.store.database.write(work)


def _numbers(name: str) -> Iterator[Field[Any]]:
    """Yield the fields of a world's records that are optional numbers in the store."""
    (record, _) = get_args(get_type_hints(World)[name])
    for part in fields(record):
        column = TABLES[name].columns.get(part.name)
        is_number = column is not None and isinstance(column.type, Double | Integer)
        if is_number and part.default is not MISSING:
            yield part


@pytest.fixture
def lived(house: House) -> House:
    _lived(house)
    _fill(house)
    return house


def _saved(house: House, seed: int) -> World:
    return from_json(World, to_json(house.store.snapshots.whole(house.now, seed)))


@pytest.mark.parametrize("step", LOOPED, ids=lambda step: step.name)
def test_what_a_step_reads_of_the_store_is_in_a_saved_world(lived: House, step: Step) -> None:
    live = read_world(step, lived.runtime, lived.runtime.begin(1000))
    saved = _saved(lived, live.seed)
    for name in sorted(step.fields - OF_THIS_PROCESS - AMONG_JOBS):
        value, there = getattr(live, name), getattr(saved, name)
        if isinstance(value, tuple):
            known = {canonical_json(one) if is_dataclass(one) else repr(one) for one in there}
            told = {canonical_json(one) if is_dataclass(one) else repr(one) for one in value}
            assert told <= known, name
        else:
            assert canonical_json(value) == canonical_json(there) if is_dataclass(value) else value == there


@pytest.mark.parametrize("step", LOOPED, ids=lambda step: step.name)
def test_a_step_decides_the_same_from_a_world_that_was_saved_and_read(lived: House, step: Step) -> None:
    whole = replace(lived.store.snapshots.whole(lived.now, 7), server="me")
    assert canonical_json(plan(step.name, whole)) == canonical_json(
        plan(step.name, from_json(World, to_json(whole)))
    )
    live = replace(read_world(step, lived.runtime, lived.runtime.begin(1000)), time=lived.now)
    expected = canonical_json(plan(step.name, live))
    assert canonical_json(plan(step.name, from_json(World, to_json(live)))) == expected


def test_the_life_gives_every_record_of_work_every_number_that_the_store_has(lived: House) -> None:
    """Otherwise a field that is lost on the way would not be seen."""
    world = _saved(lived, 7)
    assert {job.state for job in world.jobs} > {JobState.PENDING, JobState.RUNNING, JobState.DEFINED}
    for name in TABLES:
        records = getattr(world, name)
        numbers = list(_numbers(name))
        assert len(records) > 0 < len(numbers)
        usual = [
            part.name for part in numbers if all(getattr(one, part.name) == part.default for one in records)
        ]
        assert usual == [], name
