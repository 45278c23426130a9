"""What pilots say of their jobs, and what follows."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.decision import Decision, Forget, Move, Touch
from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import Heartbeat, Output, Report, World
from pilotage.model.records.constants import GuardConstants
from pilotage.model.records.failures import Failure, Tries, tries_of
from pilotage.model.records.states import AT_A_PILOT, JobState, PilotState
from pilotage.model.records.work import File, Job, MergeSpec, Replica, Task
from pilotage.model.values.scopes import personal_scope
from pilotage.policies.pilots import reports
from pilotage.testing import NOW, job, pilot, task, world
from pilotage.testing.moves import follow

S = JobState
MERGE = MergeSpec(command=("merge",), outputs=("all.txt",))
OWN = personal_scope(task().owner)


def held(id_: int, state: JobState, **changes: Any) -> Job:
    return replace(job(id_, state, pilot=1), **changes)


def told(*said: Report, jobs: tuple[Job, ...], tasks: tuple[Task, ...] = (task(),)) -> World:
    return world(jobs=jobs, tasks=tasks, pilots=(pilot(),), heartbeats=(Heartbeat(pilot=1, reports=said),))


def having(where: World, *attempts: tuple[int, int]) -> World:
    """The same world, in which the pilot says that it has these attempts."""
    (heartbeat,) = where.heartbeats
    return replace(where, heartbeats=(replace(heartbeat, holding=attempts),))


def receive(where: World) -> Decision:
    return reports.receive(having(where, *((entry.id, entry.attempt) for entry in where.jobs)))


def after(
    *said: Report, jobs: tuple[Job, ...], tasks: tuple[Task, ...] = (task(),)
) -> dict[int, tuple[JobState, int]]:
    return follow(jobs, receive(told(*said, jobs=jobs, tasks=tasks)))


def into(decision: Decision, target: JobState) -> Move:
    (move,) = [move for move in decision.moves if move.target == target]
    return move


def test_a_call_is_a_heartbeat() -> None:
    assert receive(told(jobs=())).changes == (Touch(kind="pilot", ids=(1,), changes={"heartbeat": NOW}),)


@pytest.mark.parametrize("state", [PilotState.CREATED, PilotState.SUBMITTED])
def test_a_first_call_makes_the_pilot_run(state: PilotState) -> None:
    (move,) = receive(world(pilots=(pilot(1, state),), heartbeats=(Heartbeat(pilot=1),))).moves
    assert (move.kind, move.source, move.target) == ("pilot", state, PilotState.RUNNING)
    assert move.changes == {"heartbeat": NOW}


def test_a_job_starts_runs_and_finishes_in_one_call_each_step_for_all_jobs_at_once() -> None:
    jobs = tuple(held(id_, S.SENT) for id_ in range(1, 101))
    said = [
        Report(job=entry.id, attempt=1, state=state, cpu_seconds=entry.id / 10)
        for entry in jobs
        for state in ("starting", "running", "done")
    ]
    decision = receive(told(*said, jobs=jobs))
    assert [(m.source, m.target, len(m.ids)) for m in decision.moves] == [
        (S.SENT, S.STARTING, 100),
        (S.STARTING, S.RUNNING, 100),
        (S.RUNNING, S.FINISHED, 100),
    ]
    assert into(decision, S.RUNNING).changes == {"started": NOW, "disk_io": None}
    ended = into(decision, S.FINISHED)
    assert ended.changes == {"ended": NOW, "error": ""}
    assert ended.own_changes == {
        entry.id: {
            "exit_code": None,
            "cpu_seconds": entry.id / 10,
            "wall_seconds": 0,
            "max_rss": 0,
            "max_workdir": 0,
            "disk_io": None,
        }
        for entry in jobs
    }


def test_done_passes_through_the_states_that_nobody_reported() -> None:
    assert after(Report(job=1, attempt=1, state="done"), jobs=(held(1, S.SENT),)) == {1: (S.FINISHED, 1)}


def test_jobs_in_different_states_follow_legal_chains_in_one_decision() -> None:
    jobs = (held(1, S.RUNNING), held(2, S.SENT), held(3, S.STARTING))
    said = [Report(job=id_, attempt=1, state="failed", error="exit 1") for id_ in (1, 3)]
    said += [Report(job=2, attempt=1, state=state) for state in ("starting", "running", "done")]
    assert after(*said, jobs=jobs) == {1: (S.DEFINED, 2), 2: (S.FINISHED, 1), 3: (S.DEFINED, 2)}


def test_outputs_become_files_of_the_job_and_the_job_holds() -> None:
    outputs = (
        Output(name="b.txt", size=2, checksum="adler32:00000002"),
        Output(name="a.txt", size=1, checksum=""),
    )
    said = Report(
        job=1,
        attempt=1,
        state="done",
        exit_code=0,
        cpu_seconds=1.5,
        wall_seconds=2,
        max_rss=10,
        outputs=outputs,
    )
    decision = receive(told(said, jobs=(held(1, S.RUNNING),), tasks=(task(outputs=("a.txt", "b.txt")),)))
    move = into(decision, S.HOLDING)
    assert move.creates == {
        1: (
            File(name=f"{OWN}:tasks/test/1/1/a.txt", size=1, checksum="", task=1, job=1),
            File(name=f"{OWN}:tasks/test/1/1/b.txt", size=2, checksum="adler32:00000002", task=1, job=1),
        )
    }
    assert move.own_changes[1]["cpu_seconds"] == 1.5
    assert move.own_changes[1]["exit_code"] == 0


def test_a_pattern_or_folder_takes_what_was_stored_of_it_and_at_least_one_file() -> None:
    names = ("plots/2026/x.png", "results/b.root", "results/a.root", "unasked.txt")
    outputs = tuple(Output(name=name, size=1, checksum="") for name in names)
    said = Report(job=1, attempt=1, state="done", outputs=outputs)
    asked = task(outputs=("results/*.root", "plots/"))
    decision = receive(told(said, jobs=(held(1, S.RUNNING),), tasks=(asked,)))
    (files,) = into(decision, S.HOLDING).creates.values()
    assert [file.name for file in files if isinstance(file, File)] == [
        f"{OWN}:tasks/test/1/1/{name}" for name in ("plots/2026/x.png", "results/a.root", "results/b.root")
    ]
    fewer = replace(said, outputs=outputs[:1])
    decision = receive(told(fewer, jobs=(held(1, S.RUNNING),), tasks=(asked,)))
    assert into(decision, S.FAILED).changes["error"] == "output results/*.root missing"


def test_a_job_that_lacks_an_expected_output_has_failed() -> None:
    said = Report(job=1, attempt=1, state="done", outputs=(Output(name="a.txt", size=1, checksum=""),))
    expecting = task(outputs=("a.txt", "b.txt"))
    decision = receive(told(said, jobs=(held(1, S.RUNNING),), tasks=(expecting,)))
    assert into(decision, S.FAILED).changes["error"] == "output b.txt missing"
    assert not into(decision, S.FAILED).creates
    assert follow((held(1, S.RUNNING),), decision) == {1: (S.DEFINED, 2)}


def test_a_job_may_lack_its_optional_outputs_all_of_them() -> None:
    asked = task(outputs=("a.txt", "plots/", "b.txt"), optional_outputs=("plots/", "a.txt", "b.txt"))
    for stored in ((), (Output(name="a.txt", size=1, checksum=""),)):
        said = Report(job=1, attempt=1, state="done", outputs=stored)
        decision = receive(told(said, jobs=(held(1, S.RUNNING),), tasks=(asked,)))
        files = into(decision, S.HOLDING).creates.get(1, ())
        assert sum(isinstance(file, File) for file in files) == len(stored)


def test_jobs_without_outputs_of_a_task_that_merges_wait_and_the_merge_job_holds_its_own() -> None:
    merging = task(merge=MERGE)
    jobs = (held(1, S.RUNNING), held(2, S.RUNNING, kind="merge"))
    outputs = (Output(name="all.txt", size=1, checksum=""),)
    said = (Report(job=1, attempt=1, state="done"), Report(job=2, attempt=1, state="done", outputs=outputs))
    assert after(*said, jobs=jobs, tasks=(merging,)) == {1: (S.MERGING, 1), 2: (S.HOLDING, 1)}


def test_a_failed_job_is_tried_again_from_the_start_while_attempts_remain() -> None:
    jobs = (held(1, S.RUNNING, attempt=2), held(2, S.RUNNING, attempt=3))
    said = [Report(job=entry.id, attempt=entry.attempt, state="failed", error="exit 7") for entry in jobs]
    decision = receive(told(*said, jobs=jobs))
    assert follow(jobs, decision) == {1: (S.DEFINED, 3), 2: (S.FAILED, 3)}
    assert into(decision, S.FAILED).changes["error"] == "exit 7"
    again = into(decision, S.DEFINED)
    assert (again.ids, again.next_attempt, again.changes["queue"], again.changes["pilot"]) == (
        (1,),
        True,
        "",
        None,
    )


def failed_before(count: int, **changes: Any) -> tuple[Failure, ...]:
    """Attempts of job 1 that failed within seconds, by their place's fault unless changes say otherwise."""
    whose: dict[str, Any] = {"task": 1, "owner": "alice", "vo": "", "queue": "q", "node": "n", "pilot": 1}
    fault: dict[str, Any] = {"pilots": 1, "time": NOW, "lasted": 2, "is_proof": True, **whose, **changes}
    return tuple(Failure(job=1, attempt=number, **fault) for number in range(1, count + 1))


@pytest.mark.parametrize(
    ("attempt", "before", "target"),
    [
        (3, failed_before(2), S.DEFINED),
        (5, failed_before(4), S.DEFINED),
        (6, failed_before(5), S.FAILED),
        (3, failed_before(2, is_proof=False), S.FAILED),
        (3, failed_before(2, lasted=1000), S.FAILED),
        (5, failed_before(4, is_proof=False, lasted=1000, kind="pilot"), S.DEFINED),
        (3, failed_before(0), S.FAILED),
    ],
)
def test_f2_failures_that_are_their_places_fault_are_no_attempts_at_most_as_many_again(
    attempt: int, before: tuple[Failure, ...], target: JobState
) -> None:
    jobs = (held(1, S.RUNNING, attempt=attempt),)
    said = Report(job=1, attempt=attempt, state="failed", error="exit 7", wall_seconds=2)
    found = follow(jobs, receive(replace(told(said, jobs=jobs), failures=before)))
    assert found[1][0] is target


def test_f4_attempts_that_storages_failed_do_not_count_within_a_number_and_a_time() -> None:
    guard = GuardConstants(storage_attempts=3, storage_time=100)
    (fault,) = failed_before(1, kind="storage")
    for times, spared in (((0.0,), 1), ((0.0, 50.0, 100.0), 3), ((0.0, 101.0), 1), ((0.0,) * 9, 3)):
        rows = [replace(fault, attempt=at, time=NOW + after) for at, after in enumerate(times, 1)]
        assert tries_of(rows, 1, guard, Tries(2)).excused == spared
        rows.append(replace(fault, attempt=10, kind="disk"))
        assert tries_of(rows, 1, guard, Tries(2)).excused == 1 + spared


def test_f2_a_job_with_one_attempt_begins_once_whoever_failed_it() -> None:
    for fault in (failed_before(1), failed_before(1, kind="pilot")):
        assert tries_of(fault, 1, GuardConstants(), Tries(1)) == Tries(1)
        assert tries_of(fault, 1, GuardConstants(), Tries(2)) == Tries(2, excused=1)


@pytest.mark.parametrize(
    "entry",
    [
        held(1, S.RUNNING, pilot=2),
        held(1, S.SENT, attempt=2, since=NOW),
        held(1, S.CANCELLED),
        job(1, S.DEFINED),
    ],
)
def test_reports_of_what_is_not_this_pilots_move_nothing_and_it_is_told_to_stop(entry: Job) -> None:
    where = told(Report(job=1, attempt=1, state="failed"), jobs=(entry,))
    assert reports.receive(having(where, (1, 1))).moves == []
    assert reports.stops(having(where, (1, 1))) == {1: [(1, 1)]}


@pytest.mark.parametrize("state", [S.HOLDING, S.TRANSFERRING, S.MERGING, S.FINISHED])
def test_to_hear_done_again_changes_nothing_and_does_not_cost_the_outputs(state: JobState) -> None:
    where = told(Report(job=1, attempt=1, state="done"), jobs=(held(1, state),))
    assert reports.receive(having(where)).moves == []
    assert reports.stops(having(where)) == {1: []}


def test_stops_names_what_the_pilot_holds_and_reports_but_does_not_own_any_more() -> None:
    where = told(
        Report(job=3, attempt=1, state="running"),
        jobs=(held(1, S.RUNNING), held(2, S.RUNNING, attempt=2), job(3, S.DEFINED)),
    )
    assert reports.stops(having(where, (1, 1), (2, 1), (9, 1))) == {1: [(2, 1), (3, 1), (9, 1)]}


def test_what_a_pilot_started_and_names_no_more_was_lost_there() -> None:
    jobs = (
        held(1, S.RUNNING),
        held(2, S.STARTING, attempt=3),
        held(3, S.SENT),
        held(4, S.RUNNING),
        held(5, S.RUNNING),
        held(6, S.STARTING, since=NOW - 1),
        held(7, S.SENT, since=NOW - 1),
        held(8, S.SENT, attempt=3),
    )
    where = told(Report(job=5, attempt=1, state="running"), jobs=jobs)
    decision = reports.receive(having(where, (4, 1)))
    assert follow(jobs, decision) == {
        1: (S.DEFINED, 2),
        2: (S.FAILED, 3),
        3: (S.DEFINED, 2),
        4: (S.RUNNING, 1),
        5: (S.RUNNING, 1),
        6: (S.STARTING, 1),
        7: (S.SENT, 1),
        8: (S.FAILED, 3),
    }
    assert {move.changes["error"] for move in decision.moves if move.target == S.FAILED} == {
        "lost by its pilot",
        "its pilot does not know of it",
    }


def test_a_call_that_comes_late_says_nothing_about_jobs_that_came_since() -> None:
    jobs = (held(1, S.RUNNING, since=NOW - 500), held(2, S.SENT, since=NOW - 500))
    late = Heartbeat(pilot=1, heard=NOW - 501)
    where = replace(told(jobs=jobs), heartbeats=(late,))
    assert reports.receive(where).moves == []
    now = replace(where, heartbeats=(replace(late, heard=NOW),))
    from_the_future = replace(where, heartbeats=(replace(late, heard=NOW + 1e9),))
    from_a_former_agent = replace(where, heartbeats=(replace(late, heard=None),))
    lost = {1: (S.DEFINED, 2), 2: (S.DEFINED, 2)}
    for one in (now, from_the_future, from_a_former_agent):
        assert follow(jobs, reports.receive(one)) == lost


said_things = st.lists(
    st.builds(
        Report,
        job=st.integers(1, 8),
        attempt=st.integers(1, 3),
        state=st.sampled_from(["starting", "running", "done", "failed"]),
        outputs=st.sampled_from([(), (Output(name="a.txt", size=1, checksum=""),)]),
    ),
    max_size=30,
)
any_jobs = st.lists(
    st.builds(
        lambda id_, state, attempt, at: replace(job(id_, state), attempt=attempt, pilot=at),
        st.integers(1, 8),
        st.sampled_from(S),
        st.integers(1, 3),
        st.sampled_from([1, 2, None]),
    ),
    unique_by=lambda entry: entry.id,
)


@given(
    said_things,
    any_jobs,
    st.booleans(),
    st.booleans(),
    st.sets(st.tuples(st.integers(1, 8), st.integers(1, 3))),
)
def test_whatever_a_pilot_says_every_move_is_legal_and_only_its_own_attempts_move(
    said: list[Report], jobs: list[Job], with_output: bool, merge: bool, holding: set[tuple[int, int]]
) -> None:
    asked = task(outputs=("a.txt",) if with_output else (), merge=MERGE if merge else None)
    where = told(*said, jobs=tuple(jobs), tasks=(asked,))
    decision = reports.receive(having(where, *holding))
    moved = follow(jobs, decision)
    for entry in jobs:
        if entry.pilot != 1 or entry.state not in AT_A_PILOT:
            assert moved[entry.id] == (entry.state, entry.attempt)
    mirrored = replace(where, jobs=tuple(jobs[::-1]))
    assert to_json(reports.receive(having(mirrored, *sorted(holding)))) == to_json(decision)
    stopped = reports.stops(having(where, *holding))[1]
    assert set(stopped) <= holding | {(report.job, report.attempt) for report in said}
    assert not {(j.id, j.attempt) for j in jobs if j.pilot == 1 and j.state in AT_A_PILOT} & set(stopped)


def test_an_input_that_was_not_there_is_no_replica_any_more() -> None:
    job = held(1, S.STARTING, inputs=("a", "b"))
    said = Report(job=1, attempt=1, state="failed", error="input a: gone", lost_inputs=("a", "not-its-own"))
    decision = receive(told(said, jobs=(job,)))
    storage = next(q.storage for q in told(jobs=()).federation.queues if q.name == job.queue)
    assert decision.changes[-1] == Forget(replicas=(Replica(file="a", storage=storage),))
    assert next(c.cause for c in decision.changes if isinstance(c, Move)).startswith("an input was lost")
    old = replace(said, attempt=9)
    assert not [c for c in receive(told(old, jobs=(job,))).changes if isinstance(c, Forget)]
