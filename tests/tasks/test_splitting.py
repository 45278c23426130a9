"""A registered task is split into jobs."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import TaskCount
from pilotage.model.records.states import JobState, TaskState, is_allowed
from pilotage.model.records.work import InputFile, InputPattern, NewJob, Requirements, Task
from pilotage.policies.tasks import splitting
from pilotage.store import Store, TaskPage
from pilotage.testing import ALICE, task, world
from pilotage.testing.stores import new_task
from tests.reading import world_of

T = TaskState


def inputs(*names: str) -> tuple[InputFile, ...]:
    return tuple(InputFile(name=name, size=1, replicas=("HOME-DISK",)) for name in names)


def jobs(*tasks: Task) -> list[NewJob]:
    (move,) = splitting.split(world(tasks=tasks)).moves
    assert is_allowed(move.kind, move.source, move.target)
    assert (move.kind, move.source, move.target) == ("task", T.REGISTERED, T.RUNNING)
    return [job for id_ in move.ids for job in move.creates[id_] if isinstance(job, NewJob)]


def test_inputs_go_by_name_in_chunks() -> None:
    asked = task(state=T.REGISTERED, inputs=inputs("e", "b", "a", "d", "c"), files_per_job=2, jobs=77)
    assert [job.inputs for job in jobs(asked)] == [("a", "b"), ("c", "d"), ("e",)]


def test_without_inputs_there_are_as_many_jobs_as_asked() -> None:
    asked = task(
        state=T.REGISTERED, jobs=1000, events_per_job=50, priority=700, share="prompt", cores=4, ram=100
    )
    made = jobs(asked)
    one = NewJob(
        task=1,
        kind="normal",
        share="prompt",
        priority=700,
        requirements=Requirements.of(asked.spec, ALICE).text,
        events=50,
    )
    assert made == [replace(one, index=index) for index in range(1000)]


def test_many_tasks_are_split_in_one_move() -> None:
    tasks = tuple(task(id_, T.REGISTERED, jobs=2) for id_ in (3, 1, 2))
    assert [job.task for job in jobs(*tasks)] == [1, 1, 2, 2, 3, 3]


def test_of_a_task_with_scouts_only_these_are_made_from_its_first_inputs() -> None:
    asked = task(1, T.REGISTERED, inputs=inputs(*"gfedcba"), scouts=3, command=("work",), ram=50)
    plain = task(2, T.REGISTERED)
    others, scouts = splitting.split(world(tasks=(plain, asked))).moves
    assert (scouts.ids, scouts.source, scouts.target) == ((1,), T.REGISTERED, T.SCOUTING)
    assert is_allowed("task", scouts.source, scouts.target)
    made = [job for job in scouts.creates[1] if isinstance(job, NewJob)]
    assert [(job.kind, job.inputs) for job in made] == [
        ("scout", ("a",)),
        ("scout", ("b",)),
        ("scout", ("c",)),
    ]
    assert {job.requirements for job in made} == {Requirements.of(asked.spec, ALICE).text}
    assert (others.ids, others.target) == ((2,), T.RUNNING)


@pytest.mark.parametrize(
    ("spec", "scouts"),
    [
        ({"jobs": 21, "command": ("work",)}, 10),
        ({"jobs": 20, "command": ("work",)}, 0),
        ({"jobs": 21}, 0),
        ({"jobs": 21, "command": ("work",), "scouts": 0}, 0),
        ({"jobs": 2, "command": ("work",), "scouts": 1}, 0),
        ({"jobs": 3, "command": ("work",), "scouts": 1}, 1),
    ],
)
def test_few_jobs_and_empty_payloads_have_no_scouts(spec: dict[str, Any], scouts: int) -> None:
    (move,) = splitting.split(world(tasks=(task(1, T.REGISTERED, **spec),))).moves
    kinds = [job.kind for job in move.creates[1] if isinstance(job, NewJob)]
    assert kinds == (["scout"] * scouts or ["normal"] * spec["jobs"])
    assert move.target == (T.SCOUTING if scouts else T.RUNNING)


def test_only_registered_tasks_are_split() -> None:
    assert splitting.split(world(tasks=(task(1, T.RUNNING), task(2, T.CANCELLED)))).changes == ()


def test_a_task_whose_inputs_nobody_holds_fails_and_says_which() -> None:
    missing = (InputFile(name="y", size=1), InputFile(name="x", size=1))
    bad = task(1, T.REGISTERED, inputs=(*inputs("a"), *missing))
    failed, split = splitting.split(world(tasks=(bad, task(2, T.REGISTERED)))).moves
    assert (failed.ids, failed.target, failed.creates) == ((1,), T.FAILED, {})
    assert failed.changes == {"error": "no storage holds 2 of 3 inputs, for example 'x'"}
    assert is_allowed("task", failed.source, failed.target)
    assert (split.ids, split.target) == ((2,), T.RUNNING)


@pytest.mark.parametrize("others", [(), inputs("a")])
def test_a_pattern_that_was_not_resolved_is_told(others: tuple[InputFile, ...]) -> None:
    bad = task(1, T.REGISTERED, inputs=(*others, InputPattern(storages=("HOME-DISK",), glob="*.root")))
    (failed,) = splitting.split(world(tasks=(bad,))).moves
    assert "'*.root'" in str(failed.changes["error"])


@given(st.sets(st.text("abc/12", min_size=1, max_size=8)), st.integers(1, 9))
def test_every_input_is_read_by_exactly_one_job(names: set[str], size: int) -> None:
    asked = task(state=T.REGISTERED, inputs=inputs(*names), files_per_job=size)
    made = jobs(asked)
    assert [name for job in made for name in job.inputs] == sorted(names)
    assert all(len(job.inputs) <= size for job in made)
    assert len(made) == max(1, -(-len(names) // size))
    mirrored = task(state=T.REGISTERED, inputs=inputs(*reversed(list(names))), files_per_job=size)
    where = world(tasks=(asked, task(2, T.REGISTERED)))
    assert to_json(splitting.split(replace(where, tasks=(task(2, T.REGISTERED), mirrored)))) == to_json(
        splitting.split(where)
    )


def parts(*tasks: Task) -> list[list[tuple[int, int]]]:
    """How many jobs of which task each pass makes, until all are there; each is a pass of its own second."""
    known = {entry.id: entry for entry in tasks}
    made: Counter[int] = Counter()
    passes = []
    while any(entry.state in (T.REGISTERED, T.SPLITTING) for entry in known.values()):
        counts = tuple(TaskCount(task=id_, state=JobState.DEFINED, jobs=jobs) for id_, jobs in made.items())
        moves = splitting.split(world(tasks=tuple(known.values()), task_counts=counts)).moves
        passes.append([(id_, len(move.creates[id_])) for move in moves for id_ in move.ids])
        for move in moves:
            assert is_allowed("task", move.source, move.target)
            assert move.attempts == tuple(known[id_].attempt for id_ in move.ids)
            for id_ in move.ids:
                made[id_] += len(move.creates[id_])
                since, attempt = 1e12 + len(passes), known[id_].attempt + 1
                known[id_] = replace(known[id_], state=T(move.target), since=since, attempt=attempt)
    assert made == {entry.id: entry.spec.jobs for entry in tasks}
    return passes


def test_a_large_task_is_split_part_by_part() -> None:
    assert parts(task(1, T.REGISTERED, jobs=5000)) == [[(1, 1000)]] * 5


def test_no_pass_makes_more_than_a_part_and_every_task_has_its_turn() -> None:
    large = [task(id_, T.REGISTERED, jobs=1000) for id_ in range(1, 201)]
    passes = parts(*large, task(201, T.REGISTERED, jobs=1))
    assert all(sum(jobs for _, jobs in made) <= splitting.SLICE for made in passes)
    first = next(number for number, made in enumerate(passes) if (201, 1) in made)
    assert first == 20, "after one turn of each, and not after all of their jobs"
    assert {id_ for made in passes[:20] for id_, _ in made} == set(range(1, 201))


def test_a_part_that_another_pass_made_is_not_made_again(store: Store) -> None:
    store.save_federation(world().federation, "test")
    number = new_task(store, jobs=1500)
    before = world_of(store, "split", 1.0, 1, 10)
    for _ in range(2):
        store.commit(splitting.split(before), "split")
    (view,) = store.task_lists.page(TaskPage(limit=10))
    assert (view.id, view.state, sum(view.jobs.values())) == (number, T.SPLITTING, 1000)
    store.commit(splitting.split(world_of(store, "split", 2.0, 1, 10)), "split")
    (view,) = store.task_lists.page(TaskPage(limit=10))
    assert (view.state, sum(view.jobs.values())) == (T.RUNNING, 1500)
