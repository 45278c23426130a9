"""Worlds that were changed by hand."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.federation.documents import checked
from pilotage.federation.faults import BadDocument
from pilotage.federation.worlds import check_world
from pilotage.model.documents.serialization import to_document
from pilotage.model.documents.world import JobCount, TaskCount, TaskQueue, World
from pilotage.model.records.federation import Federation, Queue, Site, Storage
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import File, Job, Requirements, Task, TaskSpec
from pilotage.model.values.identity import Identity

SPEC, ADA = TaskSpec(name="count"), Identity(name="ada")
REQUIREMENTS = Requirements.of(SPEC, ADA).text
TASK = Task(id=1, spec=SPEC, owner=ADA, state=TaskState.RUNNING, created=0, since=0)
JOB = Job(
    id=1,
    task=1,
    kind="normal",
    share="default",
    priority=500,
    requirements=REQUIREMENTS,
    state=JobState.ACTIVATED,
    attempt=1,
    since=0,
    created=0,
)
COUNT = TaskCount(task=1, state=JobState.ACTIVATED, jobs=1)
WAITING = TaskQueue(queue="short", requirements=REQUIREMENTS, jobs=1, priority=500)
WORLD = World(
    time=1e9,
    seed=7,
    federation=Federation(
        name="north",
        sites=(Site(name="oslo"),),
        storages=(Storage(name="disk", site="oslo", url="file:///data"),),
        queues=(Queue(name="short", site="oslo", storage="disk"),),
    ),
    tasks=(TASK,),
    jobs=(JOB,),
    files=(File(name="a", size=1, checksum=""),),
    task_queues=(WAITING,),
    task_counts=(COUNT,),
)


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        replace(SPEC, walltime=600),
        replace(SPEC, cpu_time=9, base_time=60),
        replace(SPEC, gpus=2, force_generic=True, submit_pools=("fast",), container_name="/cvmfs/image"),
    ],
)
def test_a_sound_world_has_no_faults(spec: TaskSpec) -> None:
    text = Requirements.of(spec, ADA).text
    world = replace(WORLD, jobs=(replace(JOB, requirements=text),))
    assert check_world(world) == []


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"seed": -1}, ("seed",)),
        ({"jobs": (replace(JOB, task=2),)}, ("jobs", 0, "task")),
        ({"task_counts": (replace(COUNT, task=2),)}, ("task_counts", 0, "task")),
        ({"jobs": (JOB, JOB)}, ("jobs", 1, "id")),
        ({"tasks": (TASK, TASK)}, ("tasks", 1, "id")),
        ({"jobs": (replace(JOB, requirements="[1]"),)}, ("jobs", 0, "requirements")),
        ({"task_queues": (replace(WAITING, requirements=""),)}, ("task_queues", 0, "requirements")),
        (
            {"task_queues": (replace(WAITING, requirements='["","","ada",1,0,0.0,false]'),)},
            ("task_queues", 0, "requirements"),
        ),
        (
            {"task_queues": (replace(WAITING, requirements='["","","ada",1,0,0.0,false,-600]'),)},
            ("task_queues", 0, "requirements"),
        ),
        ({"task_queues": (replace(WAITING, jobs=-1),)}, ("task_queues", 0, "jobs")),
        ({"task_queues": (replace(WAITING, priority=-1),)}, ("task_queues", 0, "priority")),
        ({"files": (File(name="a", size=-1, checksum=""),)}, ("files", 0, "size")),
        (
            {"job_counts": (JobCount(queue="short", share="default", state=JobState.RUNNING, jobs=-1),)},
            ("job_counts", 0, "jobs"),
        ),
        (
            {"tasks": (replace(TASK, spec=replace(SPEC, brokerage="lottery")),)},
            ("tasks", 0, "spec", "brokerage"),
        ),
        (
            {"tasks": (replace(TASK, spec=replace(SPEC, architecture="#")),)},
            ("tasks", 0, "spec", "architecture"),
        ),
        (
            {"federation": replace(WORLD.federation, plugins={"atlas": "lottery"})},
            ("federation", "plugins", "atlas"),
        ),
    ],
)
def test_a_contradiction_of_a_world_is_told_with_its_place(
    changes: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    world = replace(WORLD, **changes)
    assert [fault.path for fault in check_world(world)] == [path]
    with pytest.raises(BadDocument):
        checked(World, to_document(world))
