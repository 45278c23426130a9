"""What movers told of deliveries, and what becomes of their transfers."""

from dataclasses import replace
from typing import Literal

from pilotage.model.documents.decision import Decision, Forget, Move, Touch
from pilotage.model.records.observations import DeliverySighting
from pilotage.model.records.states import TransferState as X
from pilotage.policies.staging.deliveries import observed
from pilotage.testing import NOW, replica, three_sites, transfer, world


def told(
    number: int, state: Literal["moving", "delivered", "failed"], attempt: int = 1, error: str = ""
) -> DeliverySighting:
    return DeliverySighting(transfer=number, attempt=attempt, state=state, error=error)


def test_what_was_delivered_is_told_in_one_move_fenced_by_attempts() -> None:
    seen = world(
        three_sites(),
        transfers=[transfer(2, X.DELIVERING, attempt=3), transfer(1, X.DELIVERING)],
        deliveries=[told(2, "delivered", 3), told(1, "delivered")],
    )
    (move,) = observed(seen).moves
    assert (move.ids, move.attempts, move.target) == ((1, 2), (1, 3), X.DELIVERED)
    assert move.changes == {"ended": NOW, "error": "", "heartbeat": None, "emergency": False, "way": ""}


def test_what_failed_is_tried_from_the_next_source_with_its_error() -> None:
    seen = world(
        three_sites(),
        transfers=[transfer(1, X.DELIVERING)],
        replicas=[replica("file1", "north-a"), replica("file1", "west")],
        deliveries=[told(1, "failed", error="no route")],
    )
    (move,) = observed(seen).moves
    assert (move.target, move.next_attempt) == (X.QUEUED, True)
    assert (move.changes["source"], move.changes["error"]) == ("west", "no route")


def test_what_failed_and_lies_nowhere_else_fails() -> None:
    seen = world(
        three_sites(), transfers=[transfer(1, X.DELIVERING)], deliveries=[told(1, "failed", error="gone")]
    )
    (move,) = observed(seen).moves
    assert (move.target, move.changes["error"]) == (X.FAILED, "gone; no other storage holds file1")


WRONG = "north-a/f has checksum adler32:00000002, must have adler32:00000001"


def altered(*holders: str, before: str = WRONG, source_path: str = "") -> Decision:
    """What follows a second attempt whose bytes were wrong, after a first that ended with an error."""
    second = transfer(1, X.DELIVERING, attempt=2, error=before, source_path=source_path)
    sighting = replace(told(1, "failed", 2, WRONG), fault="altered")
    held = [replica("file1", name) for name in holders]
    return observed(world(three_sites(), transfers=[second], replicas=held, deliveries=[sighting]))


def test_a_file_that_is_altered_at_its_only_source_is_read_twice_and_its_replica_forgotten() -> None:
    first = replace(told(1, "failed", error=WRONG), fault="altered")
    seen = world(
        three_sites(),
        transfers=[transfer(1, X.DELIVERING)],
        replicas=[replica("file1", "north-a")],
        deliveries=[first],
    )
    (again,) = observed(seen).changes
    assert isinstance(again, Move)
    assert (again.target, again.changes["wake_at"]) == (X.QUEUED, NOW + 10)
    failed, forgotten = altered("north-a").changes
    assert isinstance(failed, Move)
    assert failed.target is X.FAILED
    assert failed.changes["error"] == (
        f"file1 is altered at north-a, where it was read twice: {WRONG}; no other storage holds file1"
    )
    assert forgotten == Forget(replicas=(replica("file1", "north-a"),))


def test_a_file_that_is_altered_at_one_source_comes_from_another() -> None:
    queued, forgotten = altered("north-a", "west").changes
    assert isinstance(queued, Move)
    assert (queued.target, queued.changes["source"]) == (X.QUEUED, "west")
    assert forgotten == Forget(replicas=(replica("file1", "north-a"),))


def test_bytes_that_are_wrong_in_another_way_each_time_speak_against_no_replica() -> None:
    (queued,) = altered("north-a", before="north-a/f has checksum adler32:3, must have adler32:1").changes
    assert isinstance(queued, Move)
    assert queued.target is X.QUEUED


def test_an_output_that_is_altered_in_its_scratch_area_fails_and_no_replica_is_forgotten() -> None:
    (failed,) = altered(source_path=".scratch/three/1.1/out").changes
    assert isinstance(failed, Move)
    assert failed.target is X.FAILED


def test_what_moves_is_kept_alive_at_a_fifth_of_the_time_out() -> None:
    long_ago = NOW - 120
    seen = world(
        three_sites(),
        transfers=[
            transfer(2, X.DELIVERING, attempt=4, since=long_ago),
            transfer(1, X.DELIVERING, since=0, heartbeat=long_ago),
            transfer(3, X.DELIVERING, since=long_ago + 1),
            transfer(4, X.DELIVERING, since=0, heartbeat=long_ago + 1),
        ],
        deliveries=[told(2, "moving", 4), told(1, "moving"), told(3, "moving"), told(4, "moving")],
    )
    heartbeat = Touch(kind="transfer", ids=(1, 2), attempts=(1, 4), changes={"heartbeat": NOW})
    assert observed(seen).changes == (heartbeat,)


def test_what_is_told_of_a_former_attempt_or_another_state_changes_nothing() -> None:
    seen = world(
        three_sites(),
        transfers=[transfer(1, X.DELIVERING, attempt=2), transfer(2, X.QUEUED), transfer(3, X.CANCELLED)],
        deliveries=[told(1, "delivered"), told(2, "failed"), told(3, "moving"), told(4, "delivered")],
    )
    assert observed(seen).changes == ()
