"""What the end of transfers means for jobs."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.serialization import canonical_json
from pilotage.model.records.failures import Failure
from pilotage.model.records.federation import Storage
from pilotage.model.records.spec_parts import OutputDestination
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import TransferState as X
from pilotage.model.records.states import is_allowed
from pilotage.model.records.work import MergeSpec, NewTransfer, Replica
from pilotage.policies.staging.settle import destination_of, settle
from pilotage.testing import HOUR, NOW, file, job, replica, task, three_sites, transfer, world

MERGE = MergeSpec(command=("merge",), outputs=("all",))


def output(number: int, name: str = "out") -> str:
    return f"tasks/three/1/{number}/{name}"


def upload(number: int, state: X, name: str, **fields: Any) -> Any:
    values = {"direction": "upload", "source": "east", "destination": "north-a", "since": NOW - 1}
    return transfer(number, state, file=name, source_path=".scratch/three/1.1/out", **{**values, **fields})


def moves_to(decision: Decision, target: Any) -> list[Move]:
    return [move for move in decision.moves if move.target is target]


def test_finishing_transfers_are_done_and_their_replicas_recorded() -> None:
    decision = settle(
        world(three_sites(), transfers=[transfer(2, X.FINISHING, attempt=3), transfer(1, X.FINISHING)])
    )
    (move,) = decision.moves
    assert (move.ids, move.attempts, move.target) == ((1, 2), (1, 3), X.DONE)
    assert move.creates[2] == (Replica(file="file2", storage="east", path=".copies/three/file2"),)


def test_jobs_whose_inputs_are_all_there_are_activated_in_one_move() -> None:
    jobs = [
        job(1, J.ASSIGNED, queue="QE", inputs=("file1", "old")),
        job(2, J.ASSIGNED, queue="QE", inputs=("file1", "late")),
        job(3, J.ASSIGNED, queue="QE", inputs=("file1",), attempt=2),
        job(4, J.ASSIGNED, inputs=("file1",), queue="QW"),
    ]
    seen = world(
        three_sites(),
        jobs=jobs,
        tasks=[task()],
        transfers=[transfer(1, X.FINISHING)],
        replicas=[replica("old", "east"), replica("late", "west")],
    )
    (move,) = moves_to(settle(seen), J.ACTIVATED)
    assert (move.ids, move.attempts, move.source) == ((1, 3), (1, 2), J.ASSIGNED)


def test_a_failed_download_sends_the_job_to_be_brokered_again_as_its_next_attempt() -> None:
    failed = transfer(1, X.FAILED, error="no route", since=NOW - 1)
    seen = world(
        three_sites(),
        jobs=[job(5, J.ASSIGNED, queue="QE", inputs=("file1",))],
        tasks=[task()],
        transfers=[failed],
    )
    (move,) = settle(seen).moves
    assert (move.ids, move.source, move.target, move.next_attempt) == ((5,), J.ASSIGNED, J.DEFINED, True)
    assert (move.changes["queue"], move.changes["pilot"]) == ("", None)
    assert move.changes["error"] == "file1 could not be brought to east: no route"


def test_a_job_whose_input_cannot_be_brought_fails_for_good_after_its_last_attempt() -> None:
    failed = transfer(1, X.FAILED, error="no route", since=NOW - 1)
    last = job(5, J.ASSIGNED, queue="QE", inputs=("file1",), attempt=2)
    (move,) = settle(
        world(three_sites(), jobs=[last], tasks=[task(max_attempts=2)], transfers=[failed])
    ).moves
    assert (move.ids, move.target) == ((5,), J.FAILED)
    assert "no route" in str(move.changes["error"])


def test_f2_an_attempt_that_failed_by_its_place_s_fault_does_not_count() -> None:
    failed = transfer(1, X.FAILED, error="no route", since=NOW - 1)
    last = job(5, J.ASSIGNED, queue="QE", inputs=("file1",), attempt=2)
    whose: dict[str, Any] = {"task": 1, "owner": "alice", "vo": "", "queue": "QW", "node": "n"}
    hole = Failure(job=5, attempt=1, pilot=1, pilots=1, time=NOW, lasted=2, is_proof=True, **whose)
    seen = world(three_sites(), jobs=[last], tasks=[task(max_attempts=2)], transfers=[failed])
    (move,) = settle(replace(seen, failures=(hole,))).moves
    assert (move.target, move.next_attempt) == (J.DEFINED, True)


@pytest.mark.parametrize("fault", ["source", "destination", "either"])
@pytest.mark.parametrize("direction", ["download", "upload"])
def test_f4_an_attempt_that_a_storage_failed_does_not_count_and_waits_longer_each_time(
    direction: str, fault: Any
) -> None:
    """Whoever moves the file: until 20 attempts within a day were spared, or the task has one attempt."""
    error = "No space left on device"
    moved: dict[str, Any] = {"error": error, "fault": fault, "since": NOW - 1}
    if direction == "download":
        last = job(5, J.ASSIGNED, queue="QE", inputs=("file1",), attempt=2)
        failed = transfer(1, X.FAILED, **moved)
    else:
        last = job(5, J.TRANSFERRING, queue="QE", attempt=2)
        failed = upload(1, X.FAILED, output(5), **moved)
    whose: dict[str, Any] = {"task": 1, "owner": "alice", "vo": "", "queue": "QE", "node": "", "pilot": 0}
    before = Failure(job=5, attempt=1, pilots=0, time=NOW - HOUR, lasted=0, kind="storage", **whose)

    def moves(most: int = 2, **others: Any) -> list[Move]:
        seen = world(three_sites(), jobs=[last], tasks=[task(max_attempts=most)], transfers=[failed])
        files = (file(output(5), 5),) if direction == "upload" else ()
        decided = settle(replace(seen, failures=(before,), files=files, **others)).moves
        return [move for move in decided if move.kind == "job"]

    failing, again = moves()
    (noted,) = failing.creates[5]
    assert isinstance(noted, Failure)
    assert (noted.kind, noted.pilot, noted.time) == ("storage", 0, NOW)
    assert (again.target, again.next_attempt) == (J.PENDING, True)
    assert again.changes["wake_at"] == NOW + three_sites().staging.open_for(1)
    assert "attempt 1 of 2 (2 did not count)" in again.cause
    assert [move.target for move in moves(most=1)] == [J.FAILED]
    used = replace(three_sites(), guard=replace(three_sites().guard, storage_attempts=1))
    assert [move.target for move in moves(federation=used)] == [J.FAILED, J.PENDING]
    late = replace(three_sites(), guard=replace(three_sites().guard, storage_time=HOUR - 1))
    assert "attempt 2 of 2 (1 did not count)" in moves(federation=late)[1].cause


def test_a_failure_of_before_or_elsewhere_or_made_good_is_not_what_a_job_waits_for() -> None:
    waiting = job(5, J.ASSIGNED, queue="QE", inputs=("file1",))
    former = transfer(1, X.FAILED, since=NOW - HOUR - 1)
    other = transfer(2, X.FAILED, file="file1", destination="west", since=NOW - 1)
    assert (
        settle(world(three_sites(), jobs=[waiting], tasks=[task()], transfers=[former, other])).changes == ()
    )
    failed = transfer(3, X.FAILED, file="file1", since=NOW - 1)
    again = transfer(4, X.QUEUED, file="file1")
    assert (
        settle(world(three_sites(), jobs=[waiting], tasks=[task()], transfers=[failed, again])).changes == ()
    )
    arrived = settle(
        world(
            three_sites(),
            jobs=[waiting],
            tasks=[task()],
            transfers=[failed, replace(again, state=X.FINISHING)],
        )
    )
    assert [move.ids for move in moves_to(arrived, J.ACTIVATED)] == [(5,)]


def test_outputs_are_uploaded_from_the_attempts_scratch_to_the_nucleus() -> None:
    seen = world(
        three_sites(base_priorities={"atlas": 60}),
        jobs=[job(1, J.HOLDING, queue="QE", attempt=2), job(2, J.HOLDING, queue="QE")],
        tasks=[task(nucleus="north")],
        files=[file(output(1), 1), file(output(1, "log"), 1), file(output(2), 2), file("input")],
    )
    (move,) = settle(seen).moves
    assert (move.ids, move.attempts, move.target) == ((1, 2), (2, 1), J.TRANSFERRING)
    assert move.creates[1][1] == NewTransfer(
        file=output(1),
        source="east",
        source_path=".scratch/three/1.2/out",
        destination="north-a",
        direction="upload",
        share="atlas-upload",
        priority=30,
        share_priority=60,
    )
    assert [created.source_path for created in move.creates[1] if isinstance(created, NewTransfer)] == [
        ".scratch/three/1.2/log",
        ".scratch/three/1.2/out",
    ]


def test_the_destination_is_the_first_writable_storage_of_the_nucleus_else_the_queues_own() -> None:
    seen = world(three_sites())
    assert destination_of(seen, task(nucleus="north"), "QE") == "north-a"
    assert destination_of(seen, task(nucleus="north"), "QN") == "north-b"
    assert destination_of(seen, task(), "QE") == "east"
    storages = [
        Storage(name="north-a", site="north", url="memory://a", blacklisted=("write_wan",)),
        Storage(name="north-b", site="north", url="memory://b"),
        Storage(name="east", site="east", url="memory://e"),
    ]
    assert destination_of(world(three_sites((), storages)), task(nucleus="north"), "QE") == "north-b"
    assert destination_of(world(three_sites((), storages[::2])), task(nucleus="north"), "QE") == "east"


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["plots/a", "plots/cmsx"], ""),
        (["plots/a", "plots/cms/secret"], "'work/cms/secret' is in no folder of west that your tasks may"),
        (["plots/" + "d/" * 300 + "a"], "'work/d/d/"),
        (["plots/a", "logs/a"], "outputs logs/a and plots/a would both be work/a of west"),
    ],
)
def test_each_file_of_a_folder_goes_only_where_its_owner_may_deliver(names: list[str], error: str) -> None:
    folders = {"work": (), "work/cms": ("cms",)}
    storages = [
        Storage(name="east", site="east", url="memory://e"),
        Storage(name="west", site="west", url="memory://w", delivery_folders=folders),
    ]
    places = {
        f"{folder}/": OutputDestination(storage="west", path="work", prefix=folder)
        for folder in ("plots", "logs")
    }
    seen = world(
        three_sites((), storages),
        jobs=[job(1, J.HOLDING, queue="QE")],
        tasks=[task(outputs=tuple(places), destinations=places, max_attempts=1)],
        files=[file(output(1, name), 1) for name in names],
    )
    (move,) = settle(seen).moves
    assert move.target is (J.FAILED if error else J.TRANSFERRING)
    assert str(move.changes.get("error", "")).startswith(error)


def test_outputs_that_need_not_move_are_still_given_their_final_name() -> None:
    seen = world(
        three_sites(), jobs=[job(1, J.HOLDING, queue="QE")], tasks=[task()], files=[file(output(1), 1)]
    )
    (created,) = moves_to(settle(seen), J.TRANSFERRING)[0].creates[1]
    assert isinstance(created, NewTransfer)
    assert (created.source, created.destination) == ("east", "east")
    assert created.source_path == ".scratch/three/1.1/out"


def test_jobs_without_outputs_are_finished_at_once_or_wait_to_be_merged() -> None:
    jobs = [
        job(1, J.HOLDING, queue="QE"),
        job(2, J.HOLDING, queue="QE", task=2),
        job(3, J.HOLDING, queue="QE", task=2, kind="merge"),
        job(4, J.HOLDING, queue="gone"),
    ]
    decision = settle(world(three_sites(), jobs=jobs, tasks=[task(), task(2, merge=MERGE)]))
    assert [move.ids for move in moves_to(decision, J.FINISHED)] == [(1, 3, 4)]
    assert [move.ids for move in moves_to(decision, J.MERGING)] == [(2,)]


def test_an_upload_that_a_former_attempt_left_is_cancelled_before_the_new_one_is_asked_for() -> None:
    seen = world(
        three_sites(),
        jobs=[job(1, J.HOLDING, queue="QE", attempt=2)],
        tasks=[task(nucleus="north")],
        files=[file(output(1), 1), file(output(1, "log"), 1)],
        transfers=[
            upload(8, X.DELIVERING, output(1), attempt=3),
            upload(9, X.QUEUED, output(1, "log")),
        ],
    )
    moves = settle(seen).moves
    assert [(move.kind, move.ids, move.target) for move in moves] == [
        ("transfer", (9,), X.CANCELLED),
        ("transfer", (8,), X.CANCELLED),
        ("job", (1,), J.TRANSFERRING),
    ]
    assert moves[1].attempts == (3,)


def test_what_a_former_attempt_brought_at_last_is_no_replica_of_the_new_one_s_output() -> None:
    """The file is of other bytes by now, and goes to another storage."""
    seen = world(
        three_sites(),
        jobs=[job(1, J.HOLDING, queue="QW", attempt=2)],
        tasks=[task()],
        files=[file(output(1), 1)],
        transfers=[upload(9, X.FINISHING, output(1), destination="east")],
    )
    done, started = settle(seen).moves
    assert (done.ids, done.target, done.creates) == ((9,), X.DONE, {})
    ((request,),) = started.creates.values()
    assert isinstance(request, NewTransfer)
    assert (request.destination, request.source_path) == ("west", ".scratch/three/1.2/out")


def test_jobs_whose_outputs_have_all_arrived_are_finished_or_wait_to_be_merged() -> None:
    jobs = [
        job(1, J.TRANSFERRING, queue="QE"),
        job(2, J.TRANSFERRING, queue="QE"),
        job(3, J.TRANSFERRING, queue="QE", task=2),
        job(4, J.TRANSFERRING, queue="QE", task=2, kind="merge"),
    ]
    files = [file(output(1), 1), file(output(1, "log"), 1), file(output(2), 2)]
    files += [file("tasks/three/2/3/out", 3), file("tasks/three/2/4/out", 4)]
    seen = world(
        three_sites(),
        jobs=jobs,
        tasks=[task(nucleus="north"), task(2, merge=MERGE)],
        files=files,
        replicas=[
            replica(output(1), "north-a"),
            replica("tasks/three/2/3/out", "east"),
            replica("tasks/three/2/4/out", "east"),
        ],
        transfers=[
            upload(1, X.FINISHING, output(1, "log")),
            upload(2, X.DELIVERING, output(2)),
        ],
    )
    decision = settle(seen)
    assert [move.ids for move in moves_to(decision, J.FINISHED)] == [(1, 4)]
    assert [move.ids for move in moves_to(decision, J.MERGING)] == [(3,)]


def test_a_replica_of_a_former_attempt_does_not_count_while_its_upload_is_under_way_or_if_it_failed() -> None:
    seen = world(
        three_sites(),
        jobs=[job(1, J.TRANSFERRING, queue="QE", attempt=2)],
        tasks=[task()],
        files=[file(output(1), 1)],
        replicas=[replica(output(1), "north-a")],
        transfers=[upload(1, X.QUEUED, output(1))],
    )
    assert settle(seen).changes == ()
    failed = replace(seen, transfers=(replace(seen.transfers[0], state=X.FAILED),))
    assert [move.target for move in settle(failed).moves] == [J.FAILED, J.DEFINED]


def test_a_failed_upload_fails_the_attempt_cancels_its_others_and_begins_the_next() -> None:
    jobs = [job(1, J.TRANSFERRING, queue="QE"), job(2, J.TRANSFERRING, queue="QE", attempt=3)]
    files = [file(output(1), 1), file(output(1, "log"), 1), file(output(2), 2)]
    seen = world(
        three_sites(),
        jobs=jobs,
        tasks=[task(nucleus="north", max_attempts=3)],
        files=files,
        transfers=[
            upload(1, X.FAILED, output(1), error="disk full"),
            upload(2, X.QUEUED, output(1, "log")),
            upload(3, X.FAILED, output(2), error="disk full"),
        ],
    )
    moves = settle(seen).moves
    assert [(move.ids, move.source, move.target) for move in moves] == [
        ((2,), X.QUEUED, X.CANCELLED),
        ((1,), J.TRANSFERRING, J.FAILED),
        ((2,), J.TRANSFERRING, J.FAILED),
        ((1,), J.FAILED, J.DEFINED),
    ]
    assert moves[1].changes["error"] == f"{output(1)} could not be brought to north-a: disk full"
    assert (moves[3].next_attempt, moves[3].attempts) == (True, (1,))
    assert (moves[3].changes["queue"], moves[3].changes["pilot"]) == ("", None)
    assert "error" not in moves[3].changes


def test_a_queue_that_has_left_the_federation_does_not_stop_the_pass() -> None:
    jobs = [
        job(1, J.ASSIGNED, inputs=("file1",), queue="gone"),
        job(2, J.HOLDING, queue="gone"),
        job(3, J.ASSIGNED, queue="QE", inputs=("file1",)),
    ]
    seen = world(
        three_sites(),
        jobs=jobs,
        tasks=[task()],
        files=[file(output(2), 2)],
        transfers=[transfer(1, X.FINISHING)],
    )
    decision = settle(seen)
    assert [move.ids for move in moves_to(decision, J.ACTIVATED)] == [(3,)]
    assert [(move.ids, move.source) for move in moves_to(decision, J.DEFINED)] == [
        ((1,), J.ASSIGNED),
        ((2,), J.FAILED),
    ]


JOBS = st.lists(
    st.builds(
        lambda number, state, attempt, kind, queue: job(
            number, state, attempt=attempt, kind=kind, queue=queue, inputs=("file1", "file2")
        ),
        st.integers(1, 6),
        st.sampled_from([J.ASSIGNED, J.HOLDING, J.TRANSFERRING]),
        st.integers(1, 3),
        st.sampled_from(["normal", "merge"]),
        st.sampled_from(["QE", "QN", "gone"]),
    ),
    unique_by=lambda one: one.id,
)
ENDS = st.lists(
    st.builds(
        lambda number, name, state, since: transfer(number, state, file=name, since=since, source_path="x"),
        st.integers(1, 30),
        st.sampled_from(["file1", "file2", *(output(number) for number in range(1, 7))]),
        st.sampled_from([X.QUEUED, X.DELIVERING, X.FINISHING, X.FAILED]),
        st.sampled_from([NOW - 200, NOW - 1]),
    ),
    unique_by=lambda one: one.id,
)


@given(JOBS, ENDS, st.sets(st.integers(1, 6)))
def test_every_move_is_allowed_no_job_makes_two_ways_and_order_does_not_matter(
    jobs: list[Any], transfers: list[Any], with_output: set[int]
) -> None:
    files = [file(output(number), number) for number in sorted(with_output)]
    seen = world(
        three_sites(), jobs=jobs, tasks=[task(max_attempts=2, merge=MERGE)], files=files, transfers=transfers
    )
    decision = settle(seen)
    states = {("job", one.id): one.state for one in jobs} | {("transfer", t.id): t.state for t in transfers}
    for move in decision.moves:
        assert is_allowed(move.kind, move.source, move.target)
        assert len(move.ids) == len(set(move.ids)) == len(move.attempts or ())
        for number in move.ids:
            assert states[move.kind, number] is move.source
            states[move.kind, number] = move.target
    turned = replace(
        seen,
        jobs=seen.jobs[::-1],
        transfers=seen.transfers[::-1],
        files=seen.files[::-1],
        tasks=seen.tasks[::-1],
    )
    assert canonical_json(settle(turned)) == canonical_json(decision)
