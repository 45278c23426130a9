"""Time-outs: what has waited too long, or has gone silent, moves on (rules T)."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import JobCount, QueueReport, World
from pilotage.model.records.failures import Failure
from pilotage.model.records.federation import (
    ComputingElement,
    Federation,
    Queue,
    Site,
    Storage,
    TimeoutConstants,
)
from pilotage.model.records.servers import Absence
from pilotage.model.records.states import AT_A_PILOT, LIVE_JOBS, JobState, PilotState, TaskState, is_allowed
from pilotage.model.records.work import Job, Pilot, Task, TaskSpec
from pilotage.model.rules.timeouts import CALL_TIMEOUT, OUTCOMES, RULES, absent
from pilotage.model.values.identity import Identity
from pilotage.policies.watchdog import timeouts
from pilotage.testing import requirements

S, P = JobState, PilotState
NOW, HOUR, DAY = 10_000_000.0, 3600.0, 86400.0

LIMITS = {
    S.PENDING: HOUR,
    S.ASSIGNED: 12 * HOUR,
    S.ACTIVATED: 2 * DAY,
    S.SENT: HOUR / 2,
    S.STARTING: 2 * DAY,
    S.RUNNING: 21 * DAY,
    S.HOLDING: 2 * DAY,
    S.TRANSFERRING: 6 * DAY,
}
HIGH = {S.ACTIVATED: 4 * HOUR, S.STARTING: 4 * HOUR, S.HOLDING: 3 * HOUR, S.TRANSFERRING: 2 * DAY}


def job(id_: int, state: JobState, waited: float = 0, **changes: Any) -> Job:
    made = Job(
        id=id_,
        task=1,
        kind="normal",
        share="default",
        priority=500,
        requirements="",
        state=state,
        attempt=1,
        since=NOW - waited,
        created=NOW - 30 * DAY,
        queue="" if state in (S.PENDING, S.DEFINED) else "q1",
        pilot=1 if state in AT_A_PILOT else None,
    )
    return replace(made, **changes)


def pilot(id_: int = 1, state: PilotState = P.RUNNING, silent: float = 0, **changes: Any) -> Pilot:
    made = Pilot(
        id=id_,
        queue="q1",
        requirements="",
        kind="generic",
        owner=Identity(name="generic"),
        cores=1,
        memory=0,
        walltime=DAY,
        state=state,
        created=NOW - 30 * DAY,
        since=NOW - 30 * DAY,
        reference="batch-1",
        heartbeat=NOW - silent,
    )
    return replace(made, **changes)


def world(*jobs: Job, pilots: tuple[Pilot, ...] = (pilot(),), attempts: int = 3, **queue: Any) -> World:
    """A task whose jobs have so many attempts, and one queue, which started something a minute ago."""
    return World(
        time=NOW,
        seed=1,
        federation=Federation(
            name="test",
            sites=(Site(name="here"),),
            storages=(Storage(name="disk", site="here", url="file:///disk"),),
            queues=(Queue(name="q1", site="here", storage="disk", **queue),),
        ),
        tasks=(
            Task(
                id=1,
                spec=TaskSpec(name="t", max_attempts=attempts),
                owner=Identity(name="alice"),
                state=TaskState.RUNNING,
                created=0,
                since=0,
            ),
        ),
        jobs=jobs,
        pilots=pilots,
        queue_reports=(QueueReport(queue="q1", last_start=NOW - 60),),
    )


def after(where: World) -> dict[int, tuple[JobState, int]]:
    """State and attempt of every job after the watch; fails at a move that the commit would refuse."""
    return followed(where, timeouts.watch(where))


def followed(where: World, decision: Decision) -> dict[int, tuple[JobState, int]]:
    now = {entry.id: (entry.state, entry.attempt) for entry in where.jobs}
    for move in decision.moves:
        assert is_allowed(move.kind, move.source, move.target), move
        for id_, attempt in zip(move.ids, move.attempts or (), strict=move.kind == "job"):
            assert now[id_] == (move.source, attempt)
            now[id_] = (JobState(move.target), attempt + move.next_attempt)
    return now


@pytest.mark.parametrize("state", LIMITS)
def test_a_job_stays_until_its_limit_and_not_longer(state: JobState) -> None:
    limit = LIMITS[state]
    assert after(world(job(1, state, limit - 1))) == {1: (state, 1)}
    unstarted = state in (S.PENDING, S.ASSIGNED, S.ACTIVATED)
    assert after(world(job(1, state, limit))) == {1: (S.DEFINED, 1 if unstarted else 2)}


@pytest.mark.parametrize("state", [S.STARTING, S.RUNNING, S.HOLDING, S.TRANSFERRING])
def test_what_had_started_fails_for_good_at_its_last_attempt(state: JobState) -> None:
    where = world(job(1, state, LIMITS[state], attempt=2), attempts=2)
    (move,) = timeouts.watch(where).moves
    assert move.target == S.FAILED
    assert f"{state} for {LIMITS[state]:g} s" in str(move.changes["error"])


@pytest.mark.parametrize("state", [S.STARTING, S.RUNNING])
def test_the_next_attempt_waits_where_a_pilot_that_was_cut_off_may_run_the_old_one(state: JobState) -> None:
    """Its lease may be longer than the job may be in its state (decision 3)."""
    late = job(1, state, LIMITS[state])
    cut_off = with_timeouts(world(late, pilots=(pilot(silent=HOUR),)), heartbeat=9 * DAY)
    last = timeouts.watch(cut_off).moves[-1]
    assert (last.target, last.next_attempt) == (S.PENDING, True)
    assert last.changes["wake_at"] == NOW - HOUR + 9 * DAY
    assert after(replace(cut_off, pilots=()))[1] == (S.DEFINED, 2)


@pytest.mark.parametrize("state", [S.SENT, S.RUNNING])
@pytest.mark.parametrize(("is_proof", "target"), [(True, (S.DEFINED, 4)), (False, (S.FAILED, 3))])
def test_f2_attempts_that_failed_by_their_place_s_fault_do_not_count(
    state: JobState, is_proof: bool, target: tuple[JobState, int]
) -> None:
    whose: dict[str, Any] = {"task": 1, "owner": "alice", "vo": "", "queue": "hole", "node": "n"}
    before = tuple(
        Failure(job=1, attempt=one, pilot=1, pilots=1, time=NOW, lasted=2, is_proof=is_proof, **whose)
        for one in (1, 2)
    )
    where = world(job(1, state, LIMITS[state], attempt=3), attempts=2)
    assert after(replace(where, failures=before)) == {1: target}


@pytest.mark.parametrize(("state", "lasted"), [(S.STARTING, 0), (S.RUNNING, 5)])
def test_an_attempt_that_a_pilot_with_contained_payloads_lost_does_not_count(
    state: JobState, lasted: float
) -> None:
    contains = pilot(silent=DAY, containment="namespaces")
    lost = world(job(1, state, 5, attempt=2), pilots=(contains,), attempts=2)
    _, failed, again = timeouts.watch(lost).moves
    ((failure,),) = failed.creates.values()
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.attempt, failure.lasted) == ("pilot", 2, lasted)
    assert (again.target, again.cause) == (S.DEFINED, "tried again, attempt 2 of 2 (1 did not count)")
    for way in ("", "off", "none"):
        *_, ended = timeouts.watch(replace(lost, pilots=(replace(contains, containment=way),))).moves
        assert ended.target == S.FAILED, "its payload may have killed the pilot"


def test_what_goes_back_forgets_where_it_was() -> None:
    for move in timeouts.watch(world(job(1, S.SENT, HOUR), job(2, S.ASSIGNED, DAY))).moves:
        assert (move.changes["queue"], move.changes["pilot"], move.changes["wake_at"]) == ("", None, None)


def test_b37_a_pending_job_is_woken_when_the_brokerage_said() -> None:
    jobs = (job(1, S.PENDING, 2 * HOUR, wake_at=NOW + 1), job(2, S.PENDING, 5, wake_at=NOW))
    assert after(world(*jobs)) == {1: (S.PENDING, 1), 2: (S.DEFINED, 1)}


def test_what_only_waits_for_a_pass_or_for_its_siblings_has_no_time_out() -> None:
    assert timeouts.watch(world(job(1, S.DEFINED, 99 * DAY), job(2, S.MERGING, 99 * DAY))).changes == ()


@pytest.mark.parametrize("state", HIGH)
def test_high_priority_has_shorter_limits_for_jobs_and_queues_that_do_not_start_anything(
    state: JobState,
) -> None:
    where = replace(world(job(1, state, HIGH[state], priority=800)), queue_reports=())
    assert after(where)[1][0] == S.DEFINED
    assert after(replace(where, jobs=(job(1, state, HIGH[state], priority=799),)))[1][0] == state
    assert after(replace(where, jobs=(job(1, state, HIGH[state] - 1, priority=800),)))[1][0] == state


@pytest.mark.parametrize("state", [S.ACTIVATED, S.STARTING])
def test_high_priority_jobs_wait_on_where_the_queue_started_something_lately(state: JobState) -> None:
    urgent = job(1, state, HIGH[state], priority=900)
    for last_start, target in ((NOW - 2 * HOUR, state), (NOW - 2 * HOUR - 1, S.DEFINED), (None, S.DEFINED)):
        where = replace(world(urgent), queue_reports=(QueueReport(queue="q1", last_start=last_start),))
        assert after(where)[1][0] == target


@pytest.mark.parametrize("queue", [{"status": "paused"}, {"disable_reassign": True}])
def test_no_time_out_holds_at_a_queue_that_is_paused_or_not_reassigned(queue: dict[str, Any]) -> None:
    jobs = [job(id_, state, 99 * DAY) for id_, state in enumerate(LIMITS, start=1) if state != S.PENDING]
    assert timeouts.watch(world(*jobs, pilots=(pilot(silent=9 * HOUR),), **queue)).changes == ()
    assert timeouts.watch(world(*jobs, pilots=(pilot(silent=9 * HOUR),))).changes


def test_a_silent_pilot_is_lost_and_its_jobs_are_others() -> None:
    jobs = (
        job(1, S.SENT),
        job(2, S.STARTING),
        job(3, S.RUNNING),
        job(4, S.RUNNING, attempt=3),
        job(5, S.HOLDING),
    )
    where = world(*jobs, pilots=(pilot(silent=2 * HOUR),))
    lost = timeouts.watch(where).moves[0]
    assert (lost.kind, lost.ids, lost.target, lost.changes) == (
        "pilot",
        (1,),
        P.FAILED,
        {"error": "lost", "ended": NOW},
    )
    assert after(where) == {
        1: (S.DEFINED, 2),
        2: (S.DEFINED, 2),
        3: (S.DEFINED, 2),
        4: (S.FAILED, 3),
        5: (S.HOLDING, 1),
    }
    assert timeouts.watch(world(*jobs, pilots=(pilot(silent=2 * HOUR - 1),))).changes == ()


@pytest.mark.parametrize(
    "present", [(), (pilot(1, P.FINISHED),), (pilot(1, P.FAILED, ended_there_since=NOW - 150),)]
)
def test_what_a_pilot_held_that_surely_ended_is_others_at_once(present: tuple[Pilot, ...]) -> None:
    jobs = (job(1, S.SENT), job(2, S.RUNNING))
    assert after(world(*jobs, pilots=present)) == {1: (S.DEFINED, 2), 2: (S.DEFINED, 2)}
    assert after(world(*jobs, pilots=present, status="paused")) == {1: (S.DEFINED, 2), 2: (S.DEFINED, 2)}


@pytest.mark.parametrize("state", [P.FAILED, P.CANCELLED])
def test_what_a_failed_pilot_held_waits_for_its_silence(state: PilotState) -> None:
    jobs = (job(1, S.SENT), job(2, S.RUNNING))
    assert after(world(*jobs, pilots=(pilot(1, state, silent=2 * HOUR - 1),))) == {
        1: (S.SENT, 1),
        2: (S.RUNNING, 1),
    }
    assert after(world(*jobs, pilots=(pilot(1, state, silent=2 * HOUR),))) == {
        1: (S.DEFINED, 2),
        2: (S.DEFINED, 2),
    }


@pytest.mark.parametrize("nights", [1, 2])
def test_the_time_in_which_no_server_was_there_counts_for_nothing(nights: int) -> None:
    """A laptop slept, and woke for a moment: its pilots have as long to call as if it had not slept."""
    ends = [NOW, NOW - 10 * HOUR - 60][:nights]
    away = tuple(Absence(began=ended - 10 * HOUR, ended=ended) for ended in reversed(ends))
    late = 2 * HOUR + nights * CALL_TIMEOUT
    for awake, states in ((60, (S.SENT, S.RUNNING)), (late, (S.DEFINED, S.DEFINED))):
        ago = 10 * HOUR * nights + awake
        where = world(job(1, S.SENT, ago), job(2, S.RUNNING, ago), pilots=(pilot(silent=ago),))
        found = after(replace(where, absences=away))
        assert (found[1][0], found[2][0]) == states
        assert {one[0] for one in after(where).values()} == {S.DEFINED}, "it was there all the time"


def test_a_closed_tunnel_is_no_silence_of_the_pilots_behind_it_for_half_a_day() -> None:
    silent = pilot(silent=10 * HOUR)
    for queue, ago, state in (
        (silent.queue, 10 * HOUR, S.RUNNING),
        ("another", 10 * HOUR, S.DEFINED),
        (silent.queue, 20 * HOUR, S.DEFINED),
    ):
        closed = Absence(queue=queue, began=NOW - ago, ended=NOW)
        where = world(job(1, S.RUNNING, ago), pilots=(pilot(silent=ago),))
        assert after(replace(where, absences=(closed,)))[1][0] == state


def test_times_that_overlap_count_once_and_pilots_notice_their_end_a_call_later() -> None:
    away = [Absence(began=at, ended=at + 100) for at in (1000.0, 1050.0)]
    constants = TimeoutConstants()
    assert absent(away, "q", constants, 900, 2000) == 150 + CALL_TIMEOUT
    assert absent(away, "q", constants, 1120, 1130) == 10
    assert absent(away, "q", constants, 900, 950) == 0


def test_the_next_attempt_waits_longer_for_a_pilot_that_could_not_call() -> None:
    """Its own lease may have begun again just before the server went."""
    away = (Absence(began=NOW - 30 * DAY, ended=NOW - 30 * DAY + HOUR), Absence(began=NOW - HOUR, ended=NOW))
    held = job(1, S.RUNNING, 22 * DAY)
    where = replace(world(held, pilots=(pilot(silent=HOUR + 300),)), absences=away)
    moved = [move for move in timeouts.watch(where).moves if move.kind == "job"][-1]
    assert moved.changes["wake_at"] == NOW + 2 * HOUR - 300


def test_a_pilot_that_never_called_is_heard_from_when_its_state_changed() -> None:
    quiet = pilot(1, heartbeat=None, since=NOW - 60)
    assert timeouts.watch(world(job(1, S.SENT), pilots=(quiet,))).changes == ()


def test_pilots_that_were_never_submitted_are_given_up() -> None:
    created = pilot(1, P.CREATED, reference="", heartbeat=None, since=NOW - 300)
    others = (
        replace(created, id=2, since=NOW - 299),
        replace(created, id=3, reference="batch-3"),
        replace(created, id=4, state=P.SUBMITTED, since=NOW - 6 * HOUR + 1),
    )
    (move,) = timeouts.watch(world(pilots=(created, *others))).moves
    assert (move.ids, move.source, move.target, move.changes["error"]) == (
        (1,),
        P.CREATED,
        P.FAILED,
        "never submitted",
    )


def test_like_jobs_move_together() -> None:
    jobs = [job(id_, S.ASSIGNED, DAY + id_) for id_ in range(1, 500)]
    (move,) = timeouts.watch(world(*jobs)).moves
    assert move.ids == tuple(range(1, 500))


def test_every_rule_names_constants_that_exist_and_an_outcome_that_is_told() -> None:
    constants = {field.name for field in fields(TimeoutConstants)}
    for rule in RULES:
        assert {rule.limit, rule.high or rule.limit} <= constants | {"max_pilot_waiting_hours"}
        assert rule.outcome in OUTCOMES
        assert rule.text
    named = {rule.limit for rule in RULES} | {rule.high for rule in RULES if rule.high}
    unnamed = {name for name in constants - named if not name.startswith("fast_rebro_")}
    assert unnamed == {"last_start", "heartbeat_by_workflow", "closed_tunnel"}


def test_every_live_state_but_merging_has_a_rule() -> None:
    ruled = {rule.state for rule in RULES if rule.kind == "job"}
    assert ruled == set(LIVE_JOBS) - {S.MERGING}


any_jobs = st.lists(
    st.builds(
        lambda id_, state, waited, attempt, at, priority: job(
            id_, state, waited, attempt=attempt, pilot=at, priority=priority
        ),
        st.integers(1, 50),
        st.sampled_from(S),
        st.floats(0, 30 * DAY),
        st.integers(1, 4),
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from([1, 799, 800]),
    ),
    unique_by=lambda entry: entry.id,
)
any_pilots = st.lists(
    st.builds(pilot, st.integers(1, 3), st.sampled_from(P), st.floats(0, 5 * HOUR)),
    unique_by=lambda entry: entry.id,
)


@given(any_jobs, any_pilots)
def test_every_move_is_legal_whatever_the_world_and_the_order_of_records_is_nothing(
    jobs: list[Job], pilots: list[Pilot]
) -> None:
    where = world(*jobs, pilots=tuple(pilots))
    decision = timeouts.watch(where)
    moved = followed(where, decision)
    for entry in jobs:
        if entry.state not in LIVE_JOBS:
            assert moved[entry.id] == (entry.state, entry.attempt)
        if entry.state in AT_A_PILOT and moved[entry.id][0] == S.DEFINED:
            assert moved[entry.id][1] == entry.attempt + 1
    mirrored = replace(where, jobs=tuple(jobs[::-1]), pilots=tuple(pilots[::-1]))
    assert to_json(timeouts.watch(mirrored)) == to_json(decision)


def test_what_has_not_started_at_a_queue_that_left_is_brokered_again_at_once() -> None:
    jobs = tuple(
        replace(job(id_, state), queue="gone")
        for id_, state in enumerate((S.ASSIGNED, S.ACTIVATED, S.RUNNING, S.TRANSFERRING), 1)
    )
    assert after(world(*jobs)) == {
        1: (S.DEFINED, 1),
        2: (S.DEFINED, 1),
        3: (S.RUNNING, 1),
        4: (S.TRANSFERRING, 1),
    }


def with_timeouts(where: World, **constants: Any) -> World:
    changed = replace(where.federation, timeouts=TimeoutConstants(**constants))
    return replace(where, federation=changed)


def test_a_job_that_was_only_sent_uses_up_its_attempts_too() -> None:
    where = world(job(1, S.SENT, HOUR, attempt=2), job(2, S.SENT, attempt=2, pilot=9), attempts=2)
    assert after(where) == {1: (S.FAILED, 2), 2: (S.FAILED, 2)}
    errors = {id_: move.changes["error"] for move in timeouts.watch(where).moves for id_ in move.ids}
    assert errors == {1: "its pilot never said that it has it: sent for 1800 s", 2: "its pilot has ended"}


def test_p4_a_pilot_that_waits_too_long_at_its_site_is_cancelled() -> None:
    late = pilot(1, P.SUBMITTED, heartbeat=None, since=NOW - 6 * HOUR)
    where = world(pilots=(late, replace(late, id=2, since=late.since + 1)), status="paused")
    (move,) = timeouts.watch(where).moves
    assert (move.ids, move.source, move.target) == ((1,), P.SUBMITTED, P.CANCELLED)
    assert move.changes == {"error": "waited too long at its site", "ended": NOW}


@pytest.mark.parametrize(("workflow", "limit"), [("merge", HOUR), ("other", 2 * HOUR), ("long", 9 * HOUR)])
def test_silence_is_measured_by_workflow(workflow: str, limit: float) -> None:
    by_workflow = {"merge": HOUR, "long": 9 * HOUR}
    for silent, state in ((limit - 1, S.RUNNING), (limit, S.DEFINED)):
        where = with_timeouts(
            world(job(1, S.RUNNING), pilots=(pilot(silent=silent),)), heartbeat_by_workflow=by_workflow
        )
        spec = replace(where.tasks[0].spec, workflow=workflow)
        where = replace(where, tasks=(replace(where.tasks[0], spec=spec),))
        assert after(where)[1][0] == state
        lost = [move for move in timeouts.watch(where).moves if move.kind == "pilot"]
        assert bool(lost) == (silent >= limit), "it has no job of another workflow"


def crowded(queued: int, running: int, elsewhere: int = 0, **queue: Any) -> World:
    """Twenty jobs that wait at q1, and these counts."""
    jobs = tuple(job(id_, S.ACTIVATED, 2 * HOUR + id_) for id_ in range(1, 11))
    jobs += tuple(job(id_, S.ASSIGNED, 2 * HOUR + id_) for id_ in range(11, 20))
    jobs += (job(20, S.ACTIVATED, HOUR - 1),)
    counts = (
        JobCount(queue="q1", share="default", state=S.ACTIVATED, jobs=queued),
        JobCount(queue="q1", share="default", state=S.RUNNING, jobs=running),
        JobCount(queue="q2", share="default", state=S.ASSIGNED, jobs=elsewhere),
    )
    return replace(world(*jobs, **queue), job_counts=counts)


def moved_of(where: World, most: dict[str, int]) -> set[int]:
    found = followed(where, timeouts.watch(with_timeouts(where, fast_rebro_threshold_nqueue=most)))
    return {id_ for id_, (state, _) in found.items() if state is S.DEFINED}


def moved_fast(where: World, **constants: Any) -> set[int]:
    constants = {"fast_rebro_threshold_nqueue": {"default": 5}} | constants
    found = followed(where, timeouts.watch(with_timeouts(where, **constants)))
    started = {one.id for one in where.jobs if one.state is S.STARTING}
    moved = {id_ for id_, (state, _) in found.items() if state is S.DEFINED}
    assert all(attempt == 1 + (id_ in moved & started) for id_, (_, attempt) in found.items())
    return moved


def test_fast_rebrokerage_moves_the_excess_over_all_three_thresholds_oldest_first() -> None:
    assert moved_fast(crowded(21, running=1)) == set(range(6, 20)), "6.3 is 0.3 of the share's 21: 14 of 21"


def test_fast_rebrokerage_heeds_each_threshold_alone() -> None:
    assert moved_fast(crowded(21, running=6)) == {17, 18, 19}, "3 x 6 may stay"
    assert moved_fast(crowded(21, running=0), fast_rebro_threshold_nqueue={"default": 20}) == {19}
    assert moved_fast(crowded(21, running=0, elsewhere=49)) == set(), "0.3 of 70 is 21"


def test_fast_rebrokerage_leaves_alone_what_it_should() -> None:
    assert moved_fast(crowded(21, running=0), fast_rebro_threshold_nqueue={}) == set()
    assert moved_fast(crowded(21, running=0), fast_rebro_threshold_nqueue={"other": 1}) == set()
    for queue in ({"num_slots": 4}, {"status": "paused"}, {"disable_reassign": True}):
        assert moved_fast(crowded(21, running=0, **queue)) == set()
    assert 20 not in moved_fast(crowded(1000, running=0)), "it has not waited for an hour"


def test_fast_rebrokerage_moves_from_queues_whose_own_pilots_have_declared_slots() -> None:
    own = ComputingElement(max_pilots=400, pilot_slots=8)
    assert moved_fast(crowded(21, running=1, computing_element=own)) == set(range(6, 20))


def test_fast_rebrokerage_moves_starting_jobs_as_their_next_attempt_while_they_have_one() -> None:
    """The pilot that prepares the job may still hold it: the attempt fences it."""
    starting = tuple(job(id_, S.STARTING, 3 * HOUR + id_, pilot=1) for id_ in (21, 22))
    last = replace(job(23, S.STARTING, 4 * HOUR, pilot=1), attempt=3)
    young = job(24, S.STARTING, HOUR - 1, pilot=1)
    where = replace(crowded(21, running=0), pilots=(pilot(silent=60),))
    where = replace(where, jobs=(*where.jobs, *starting, last, young))
    found = followed(where, timeouts.watch(with_timeouts(where, fast_rebro_threshold_nqueue={"default": 20})))
    assert {id_ for id_, (state, _) in found.items() if state is S.DEFINED} == {22}, "one of 21, the oldest"
    assert found[22] == (S.DEFINED, 2)
    assert found[23] == (S.STARTING, 3), "it has no attempt left, and moves nowhere"
    counts = (JobCount(queue="q1", share="default", state=S.STARTING, jobs=2),)
    more = replace(where, job_counts=(*where.job_counts, *counts))
    assert moved_of(more, {"default": 20}) == {22, 21, 19}, "starting jobs count as waiting ones"


def test_fast_rebrokerage_leaves_what_a_pilot_that_was_cut_off_may_begin() -> None:
    """No two attempts of a job run at the same time (decision 3)."""
    where = crowded(200, 10)
    starting = tuple(replace(one, state=S.STARTING, pilot=1) for one in where.jobs)
    held = replace(where, jobs=starting)
    assert moved_of(held, {"default": 5})
    assert not moved_of(replace(held, pilots=(pilot(silent=HOUR),)), {"default": 5})


@pytest.mark.parametrize(("asked", "until", "goes"), [(True, 1, True), (True, 0, False), (False, 1, False)])
def test_b14_a_job_that_waits_where_no_node_has_what_it_needs_goes_elsewhere(
    asked: bool, until: float, goes: bool
) -> None:
    found = CircuitBreaker(
        kind="empty-pilots",
        place=("q1", "containers"),
        since=NOW - 60,
        until=NOW + until,
        failures=1,
        error="no container runtime (3 nodes checked)",
    )
    waiting = job(1, S.ACTIVATED, requirements=requirements(container=asked))
    where = replace(world(waiting, job(2, S.ACTIVATED, requirements=requirements())), lacking_nodes=(found,))
    assert after(where) == {1: (S.DEFINED if goes else S.ACTIVATED, 1), 2: (S.ACTIVATED, 1)}
    causes = [move.cause for move in timeouts.watch(where).moves]
    assert causes == ["its queue has no container runtime (3 nodes checked)"] * goes
