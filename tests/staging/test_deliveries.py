"""What movers told of deliveries, and what becomes of their transfers."""

from typing import Literal

from pilotage.model.decision import Touch
from pilotage.model.observations import DeliverySighting
from pilotage.model.states import TransferState as X
from pilotage.staging.deliveries import observed
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
