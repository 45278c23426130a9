"""Scouts that have ended: what they needed replaces the estimates, and the other jobs are made."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.documents.world import JobUsage, TaskCount, World
from pilotage.model.records.federation import Queue, ScoutConstants
from pilotage.model.records.states import LIVE_JOBS, JobState, TaskState, is_allowed
from pilotage.model.records.work import File, InputFile, Job, Measured, MergeSpec, NewJob, Requirements, Task
from pilotage.policies.tasks import completion, scouting, splitting
from pilotage.testing import ALICE, job, jobs_of, task, world

S, T = JobState, TaskState
MARGIN, STEP = 1.2, 100


def scouting_task(jobs: int = 9, scouts: int = 4, **spec: Any) -> Task:
    asked: dict[str, Any] = {"jobs": jobs, "scouts": scouts, "command": ("work",)}
    return task(1, T.SCOUTING, **asked | spec)


def scout(id_: int, state: JobState = S.FINISHED, **changes: Any) -> Job:
    return job(id_, state, kind="scout", **changes)


def usage(of: int, **used: float) -> JobUsage:
    numbers = {"cpu_seconds": 50, "wall_seconds": 100, "max_rss": 500, "max_workdir": 30}
    return JobUsage(job=of, **numbers | used)


def made(of: int, size: int, name: str = "a") -> File:
    return File(name=f"tasks/test/1/{of}/{name}", size=size, checksum="", task=1, job=of)


def power(where: World, core_power: float) -> World:
    queue = Queue(name="Q", site="HOME", storage="HOME-DISK", core_power=core_power)
    return replace(where, federation=replace(where.federation, queues=(queue,)))


def concluded(where: World) -> Move:
    (move,) = scouting.conclude(where).moves
    assert (move.kind, move.ids) == ("task", (1,))
    assert is_allowed("task", move.source, move.target)
    return move


def measured(where: World) -> Measured:
    move = concluded(where)
    assert move.target == T.SPLITTING
    return from_json(Measured, str(move.changes["measured"]))


def new_jobs(move: Move) -> list[NewJob]:
    return [record for record in move.creates.get(1, ()) if isinstance(record, NewJob)]


def other_jobs(where: World) -> list[NewJob]:
    """All that are made after the scouts: for those that failed, and then part by part."""
    made = new_jobs(concluded(where))
    task = replace(where.tasks[0], state=T.SPLITTING, measured=measured(where))
    while task.state is T.SPLITTING:
        count = TaskCount(task=1, state=S.DEFINED, jobs=len(where.jobs) + len(made))
        (move,) = splitting.split(world(tasks=(task,), task_counts=(count,))).moves
        assert is_allowed("task", move.source, move.target)
        made += new_jobs(move)
        task = replace(task, state=T(move.target))
    assert task.state is T.RUNNING
    return made


@pytest.mark.parametrize("state", [state for state in LIVE_JOBS if state != S.MERGING])
def test_a_task_waits_for_every_scout(state: JobState) -> None:
    jobs = (*(scout(id_) for id_ in (1, 2, 3)), scout(4, state))
    assert scouting.conclude(world(tasks=(scouting_task(),), jobs=jobs)).changes == ()


@pytest.mark.parametrize("state", [state for state in T if state != T.SCOUTING])
def test_only_tasks_that_are_scouting_are_concluded(state: TaskState) -> None:
    other = replace(scouting_task(), state=state)
    assert scouting.conclude(world(tasks=(other,), jobs=(scout(1),))).changes == ()


def test_when_all_scouts_have_ended_well_the_other_jobs_are_made_next() -> None:
    names = [f"in-{number}" for number in range(9)]
    files = tuple(InputFile(name=name, size=1, replicas=("HOME-DISK",)) for name in names)
    asked = scouting_task(jobs=1, inputs=files, events_per_job=5)
    jobs = tuple(scout(id_, inputs=(names[id_ - 1],), events=5) for id_ in (1, 2, 3, 4))
    where = world(tasks=(asked,), jobs=jobs, usages=tuple(usage(id_) for id_ in (1, 2, 3, 4)))
    move = concluded(where)
    assert (move.source, move.target, move.creates[1]) == (T.SCOUTING, T.SPLITTING, ())
    assert [new.inputs for new in other_jobs(where)] == [(name,) for name in names[4:]]
    assert {(new.kind, new.events) for new in other_jobs(where)} == {("normal", 5)}


def test_the_other_jobs_ask_for_what_was_measured() -> None:
    asked = scouting_task(ram=9000, walltime=10, priority=700)
    jobs = tuple(map(scout, (1, 2, 3, 4)))
    where = world(
        tasks=(asked,), jobs=jobs, usages=tuple(usage(id_, wall_seconds=5000) for id_ in range(1, 5))
    )
    wanted = Requirements.of(replace(asked, measured=measured(where)).expected("normal"), ALICE)
    assert (wanted.memory, wanted.walltime) == (600, 7200)
    assert {new.requirements for new in other_jobs(where)} == {wanted.text}
    assert {new.priority for new in other_jobs(where)} == {700}


def test_estimates_are_the_most_that_a_scout_needed_with_a_margin() -> None:
    jobs = tuple(scout(id_, events=10) for id_ in (1, 2, 3))
    usages = (
        usage(1, cpu_seconds=40, wall_seconds=50, max_rss=300, max_workdir=12),
        usage(2, cpu_seconds=90, wall_seconds=110, max_rss=100, max_workdir=0.5),
        usage(3, cpu_seconds=9, wall_seconds=210, max_rss=200, max_workdir=8),
    )
    files = (made(1, 2_000_000), made(2, 3_000_000), made(2, 1_000_000, "b"))
    where = world(tasks=(scouting_task(),), jobs=jobs, usages=usages, files=files)
    found = measured(power(where, 12))
    assert found.finished == 3
    assert found.cpu_time == pytest.approx(90 * 12 / 10 * MARGIN)
    assert found.base_time == pytest.approx((210 - 9 / 0.9) * MARGIN)
    assert found.walltime == pytest.approx(210 * MARGIN)
    assert found.memory == 400
    assert found.out_disk == pytest.approx(4 / 10 * MARGIN)
    assert found.work_disk == pytest.approx((12 - 2) * MARGIN)


def test_cpu_time_is_that_of_the_queue_where_the_scout_ran() -> None:
    jobs = (scout(1, queue="Q"), scout(2, queue="gone"))
    usages = (usage(1, cpu_seconds=10), usage(2, cpu_seconds=1000))
    where = world(tasks=(scouting_task(scouts=2),), jobs=jobs, usages=usages)
    assert measured(power(where, 7)).cpu_time == pytest.approx(10 * 7 * MARGIN)


def test_what_no_scout_reported_stays_as_asked() -> None:
    asked = scouting_task(ram=700, cpu_time=3, base_time=4, walltime=5, work_disk=6, out_disk=7)
    where = world(tasks=(asked,), jobs=(scout(1),), usages=(JobUsage(job=1),), files=(made(1, 2_000_000),))
    found = measured(where)
    assert found == Measured(finished=1, out_disk=2 * MARGIN)
    assert found.replaced(asked.spec) == replace(asked.spec, out_disk=2 * MARGIN)


@pytest.mark.parametrize(
    ("asked", "base_ram", "ram"),
    [
        ({"base_ram": 200, "ram": 9, "cores": 4}, 200, 100),
        ({"base_ram": 5000, "ram": 9, "cores": 4}, 600, 0),
        ({"base_ram": 0, "ram": 9, "cores": 0}, 0, 600),
        ({"base_ram": 100, "ram": 9, "cores": 4, "ram_unit": "MB"}, 0, 600),
    ],
)
def test_measured_memory_is_that_of_a_whole_job(asked: dict[str, Any], base_ram: float, ram: float) -> None:
    found = replace(scouting_task(**asked), measured=Measured(finished=1, memory=600)).expected("normal")
    assert (found.base_ram, found.ram, found.memory) == (base_ram, ram, 600)


def test_the_work_of_scouts_that_failed_is_given_to_new_jobs() -> None:
    names = [f"in-{number}" for number in range(9)]
    files = tuple(InputFile(name=name, size=1, replicas=("HOME-DISK",)) for name in names)
    jobs = tuple(
        scout(id_, state, inputs=(names[id_ - 1],))
        for id_, state in enumerate((S.FINISHED, S.FAILED, S.FAILED, S.FINISHED), start=1)
    )
    where = world(tasks=(scouting_task(jobs=1, inputs=files),), jobs=jobs)
    assert [new.inputs for new in other_jobs(where)] == [(name,) for name in (names[1], names[2], *names[4:])]
    assert (measured(where).finished, measured(where).failed) == (2, 2)


def test_a_task_of_which_fewer_than_half_of_the_scouts_end_well_fails_and_says_why() -> None:
    asked = scouting_task(merge=MergeSpec(command=("merge",), outputs=("all",)), outputs=("a",))
    jobs = (scout(1, S.MERGING), *(scout(id_, S.FAILED, error=f"exit {id_}") for id_ in (4, 3, 2)))
    closed, failed = scouting.conclude(world(tasks=(asked,), jobs=jobs)).moves
    assert (closed.kind, closed.ids, closed.target) == ("job", (1,), S.FINISHED)
    assert (failed.target, failed.creates) == (T.FAILED, {})
    assert failed.changes == {
        "error": "of 4 scouts 1 ended well, at least 2 must; scout job 2: exit 2",
    }


@pytest.mark.parametrize(("success", "target"), [(0.0, T.SPLITTING), (0.25, T.SPLITTING), (0.26, T.FAILED)])
def test_how_many_must_end_well_is_the_federations(success: float, target: TaskState) -> None:
    jobs = (scout(1), *(scout(id_, S.FAILED) for id_ in (2, 3, 4)))
    where = world(tasks=(scouting_task(),), jobs=jobs)
    federation = replace(where.federation, scouting=ScoutConstants(success=success))
    assert concluded(replace(where, federation=federation)).target == target


def test_one_scout_at_least_must_end_well() -> None:
    where = world(tasks=(scouting_task(scouts=1),), jobs=(scout(1, S.FAILED),))
    federation = replace(where.federation, scouting=ScoutConstants(success=0))
    assert concluded(replace(where, federation=federation)).target == T.FAILED


def test_a_merge_job_asks_for_what_was_asked() -> None:
    merge = MergeSpec(command=("merge",), outputs=("all",))
    asked = scouting_task(merge=merge, ram=700, cpu_time=3)
    known = replace(asked, measured=Measured(finished=1, memory=100, cpu_time=1000))
    assert known.expected("merge") == asked.spec.for_job("merge")
    assert known.expected("scout") == known.expected("normal") != asked.spec


@pytest.mark.parametrize(
    ("kind", "found", "asked", "most", "limit"),
    [
        ("normal", None, 700, 4000, 700),
        ("normal", None, 700, 0, 700),
        ("normal", None, 700, 600, 700),
        ("normal", None, 0, 600, 600),
        ("merge", Measured(finished=1, memory=100), 700, 4000, 700),
        ("scout", None, 700, 4000, 4000),
        ("scout", None, 700, 600, 700),
        ("scout", None, 700, 0, 0),
        ("normal", Measured(finished=1, memory=100), 700, 4000, 4000),
        ("normal", Measured(finished=1, memory=100), 700, 0, 0),
    ],
)
def test_no_payload_is_ended_for_passing_an_estimate(
    kind: Any, found: Measured | None, asked: float, most: float, limit: float
) -> None:
    assert replace(scouting_task(), measured=found).limit(kind, asked, most) == limit


def test_scouts_that_failed_do_not_fail_the_task_in_the_end() -> None:
    asked = replace(scouting_task(), state=T.RUNNING, measured=Measured(finished=2, failed=2))
    where = world(tasks=(asked,), task_counts=jobs_of(finished=9, failed=2))
    (move,) = completion.complete(where).moves
    assert move.target == T.FINISHED
    jobs = (scout(1, S.FAILED, error="scout's"), job(9, S.FAILED, error="exit 9"))
    (move,) = completion.complete(replace(where, task_counts=jobs_of(finished=8, failed=3), jobs=jobs)).moves
    told = "1 of 11 jobs failed, besides 2 failed scouts that other jobs replaced; job 9: exit 9"
    assert (move.target, move.changes["error"]) == (T.FAILED, told)


def test_what_scouts_that_failed_left_is_not_merged() -> None:
    merge = MergeSpec(command=("merge",), outputs=("all",))
    asked = replace(scouting_task(merge=merge), state=T.RUNNING, measured=Measured(finished=1, failed=1))
    jobs = (scout(1, S.MERGING), scout(2, S.FAILED), job(3, S.MERGING))
    files = tuple(made(id_, 5) for id_ in (1, 2, 3))
    where = world(tasks=(asked,), task_counts=jobs_of(merging=2, failed=1), jobs=jobs, files=files)
    (move,) = completion.complete(where).moves
    assert move.target == T.MERGING
    assert [new.inputs for new in new_jobs(move)] == [(files[0].name, files[2].name)]
    ended = replace(where, tasks=(replace(asked, state=T.MERGING),))
    moves = completion.complete(replace(ended, task_counts=jobs_of(merging=2, failed=1, finished=1))).moves
    assert [(m.kind, m.ids, m.target.value) for m in moves] == [
        ("job", (1, 3), "finished"),
        ("task", (1,), "finished"),
    ]


@st.composite
def ended_scouts(draw: st.DrawFn) -> World:
    scouts = draw(st.integers(1, 6))
    inputs = tuple(
        InputFile(name=f"in-{number:02}", size=1, replicas=("HOME-DISK",))
        for number in range(draw(st.sampled_from([0, 2 * scouts + 1, 3 * scouts + 2])))
    )
    numbers = st.floats(0, 1e6)
    asked = scouting_task(
        jobs=1 if inputs else draw(st.integers(2 * scouts + 1, 40)),
        scouts=scouts,
        inputs=inputs,
        cores=draw(st.integers(0, 8)),
        base_ram=draw(numbers),
        ram=draw(numbers),
        ram_unit=draw(st.sampled_from(["MB", "MBPerCore"])),
        cpu_time=draw(numbers),
        cpu_efficiency=draw(st.floats(0.01, 1)),
        events_per_job=draw(st.integers(1, 1000)),
    )
    (split,) = splitting.split(world(tasks=(replace(asked, state=T.REGISTERED),))).moves
    assert split.target == T.SCOUTING
    jobs, usages, files = [], [], []
    for id_, new in enumerate(new_jobs(split), start=1):
        state = draw(st.sampled_from([S.FINISHED, S.FINISHED, S.FAILED]))
        jobs.append(scout(id_, state, inputs=new.inputs, events=new.events))
        usages.append(
            JobUsage(
                job=id_,
                cpu_seconds=draw(numbers),
                wall_seconds=draw(st.floats(0.001, 1e6)),
                max_rss=draw(numbers),
                max_workdir=draw(numbers),
            )
        )
        files.append(made(id_, draw(st.integers(0, 10**12))))
    where = world(tasks=(asked,), jobs=tuple(jobs), usages=tuple(usages), files=tuple(files))
    return power(where, draw(st.floats(0.1, 100)))


@given(ended_scouts())
def test_every_input_is_read_by_one_job_and_no_scout_needed_more_than_the_estimates(where: World) -> None:
    (asked,) = where.tasks
    well = [entry for entry in where.jobs if entry.state == S.FINISHED]
    decision = scouting.conclude(where)
    assert (decision.moves[-1].target == T.SPLITTING) == (2 * len(well) >= len(where.jobs))
    if decision.moves[-1].target != T.SPLITTING:
        return
    plain = replace(asked, state=T.REGISTERED, spec=replace(asked.spec, scouts=0))
    (split,) = splitting.split(world(tasks=(plain,))).moves
    rest = other_jobs(where)
    assert sorted([*(new.inputs for new in rest), *(entry.inputs for entry in well)]) == sorted(
        new.inputs for new in new_jobs(split)
    )
    expected = replace(asked, measured=measured(where)).expected("normal")
    _covers(where, expected, well)


def _covers(where: World, expected: Any, well: list[Job]) -> None:
    (queue,) = where.federation.queues
    cores = max(1, expected.cores)
    output = {file.job: file.size / 1e6 for file in where.files}
    for entry in well:
        (used,) = (used for used in where.usages if used.job == entry.id)
        assert expected.memory >= used.max_rss * 0.999
        walltime = expected.cpu_time * entry.events / (cores * queue.core_power * expected.cpu_efficiency)
        assert walltime + expected.base_time >= used.wall_seconds * 0.999
        assert expected.out_disk * entry.events >= output[entry.id] * 0.999
        disk = expected.out_disk * entry.events + expected.work_disk
        assert disk >= used.max_workdir * 0.999


@given(ended_scouts(), st.randoms(use_true_random=False))
def test_order_does_not_matter(where: World, dice: random.Random) -> None:
    def shuffled(records: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(dice.sample(records, len(records)))

    other = replace(
        where, jobs=shuffled(where.jobs), usages=shuffled(where.usages), files=shuffled(where.files)
    )
    decided: Decision = scouting.conclude(where)
    assert to_json(scouting.conclude(other)) == to_json(decided)
