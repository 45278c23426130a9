"""What would be decided with changes, beside what is."""

from dataclasses import replace

from pilotage.explain.comparison import side_by_side
from pilotage.flow.calls.work import what_if
from pilotage.flow.calls.work.what_if import Changes
from pilotage.testing import federation, jobs, queue, task, world

HOUSE = federation([queue("SMALL", max_memory=2000), queue("LARGE.x", max_memory=12000)])
WORK = task(12, ram=16000)
WORLD = world(HOUSE, WORK, jobs=jobs(WORK, 2))
FOUND = what_if.decide(WORLD, Changes(task={"memory": 12000}))


def test_what_is_and_what_would_be_are_shown_side_by_side() -> None:
    lines = [" ".join(line.split()) for line in side_by_side(FOUND)]
    assert lines[0] == "with memory 12000 instead of 16000"
    assert lines[1] == "as it is with the change"
    assert "queues that take them 0 of 2 1 of 2" in lines
    assert "jobs placed 0 of 2 2 of 2" in lines
    assert "at nowhere LARGE.x 2" in lines
    assert (
        "obstacles memory at 2 queues, the only obstacle there memory at 1 queue, the only obstacle there"
        in lines
    )
    assert "opens 1 queue: LARGE.x" in lines
    assert any(
        line.startswith("task 12, jobs 1-2: 2 jobs placed; 1 of 2 queues can take them") for line in lines
    )


def test_a_task_without_jobs_is_said_to_have_none() -> None:
    empty = replace(FOUND, before=(), after=(), opened=())
    assert side_by_side(empty)[1] == "It has no jobs that could be brokered."
