"""What the end of a delivery means for its transfer."""

from dataclasses import replace

import pytest

from pilotage.model.records.federation import StagingConstants
from pilotage.model.records.observations import DeliverySighting
from pilotage.model.records.states import TransferState as X
from pilotage.model.records.work import Transfer
from pilotage.policies.staging.retries import LONGEST_WAY, abandoned, after_deliveries, after_failure
from pilotage.testing import NOW, replica, three_sites, transfer, world

CONSTANTS = StagingConstants(max_attempts=5, retry_delay=10)


def seen(number: int, way: str) -> tuple[Transfer, DeliverySighting]:
    sighting = DeliverySighting(transfer=number, attempt=2, state="delivered", way=way)
    return transfer(number, X.DELIVERING, attempt=2), sighting


def test_a_delivered_transfer_is_fenced_by_its_attempt() -> None:
    (move,) = after_deliveries([seen(3, "")], NOW)
    assert (move.ids, move.attempts, move.source, move.target) == ((3,), (2,), X.DELIVERING, X.DELIVERED)


def test_the_way_that_a_file_came_by_is_kept_of_many_in_one_move() -> None:
    moves = after_deliveries([seen(3, "streamed"), seen(4, "x" * 400), seen(5, "streamed")], NOW)
    assert {one.ids: one.changes["way"] for one in moves} == {(3, 5): "streamed", (4,): "x" * LONGEST_WAY}


def test_a_failed_delivery_is_queued_again_as_the_next_attempt_with_its_error() -> None:
    move = after_failure(transfer(3, X.DELIVERING), "no route", NOW, CONSTANTS, ("north-a",))
    assert (move.ids, move.attempts, move.source, move.target) == ((3,), (1,), X.DELIVERING, X.QUEUED)
    assert move.next_attempt
    assert (move.changes["error"], move.changes["wake_at"]) == ("no route", NOW + 10)


@pytest.mark.parametrize(
    ("attempt", "source", "delay"), [(1, "b", 0), (2, "c", 0), (3, "a", 40), (4, "b", 80)]
)
def test_the_sources_are_tried_in_turn_and_then_again_after_a_growing_wait(
    attempt: int, source: str, delay: float
) -> None:
    before = {1: "a", 2: "b", 3: "c", 4: "a"}[attempt]
    failed = transfer(1, X.DELIVERING, attempt=attempt, source=before)
    move = after_failure(failed, "x", NOW, CONSTANTS, ("a", "b", "c"))
    assert (move.changes["source"], move.changes["wake_at"]) == (source, NOW + delay)


def test_out_of_tries_it_fails() -> None:
    move = after_failure(transfer(1, X.DELIVERING, attempt=5), "x", NOW, CONSTANTS, ("north-a",))
    assert (move.target, move.next_attempt, move.changes["error"]) == (X.FAILED, False, "x")


def test_out_of_sources_it_fails_and_says_so() -> None:
    move = after_failure(transfer(1, X.DELIVERING), "x", NOW, CONSTANTS, ())
    assert move.target is X.FAILED
    assert "no other storage holds file1" in str(move.changes["error"])


def test_an_upload_out_of_the_scratch_area_keeps_its_source() -> None:
    upload = transfer(
        1, X.DELIVERING, source="east", source_path=".scratch/three/1.1/out", direction="upload"
    )
    move = after_failure(upload, "x", NOW, CONSTANTS, ())
    assert (move.target, move.changes["source"]) == (X.QUEUED, "east")


def test_what_a_server_that_has_ended_delivered_is_put_back_at_once() -> None:
    deliveries = [
        transfer(1, X.DELIVERING, heartbeat=NOW, server="here ended"),
        transfer(2, X.DELIVERING, heartbeat=NOW, server="elsewhere"),
        transfer(3, X.DELIVERING, heartbeat=NOW),
        transfer(4, X.DELIVERING, heartbeat=NOW, server="here ended", attempt=5),
        transfer(5, X.DONE, server="here ended"),
    ]
    both = [replica(f"file{number}", storage) for number in range(1, 6) for storage in ("west", "north-a")]
    seen = world(three_sites(), transfers=deliveries, replicas=both)
    decision = abandoned(replace(seen, server="here", servers_gone=("here ended",)))
    assert [(move.ids, move.target) for move in decision.moves] == [((1,), X.QUEUED), ((4,), X.FAILED)]
    changes = decision.moves[0].changes
    assert (changes["source"], changes["wake_at"]) == ("north-a", None), "the source is not to blame"
    assert changes["error"] == "the server that delivered it has ended"


def test_deliveries_without_a_heartbeat_are_given_up_as_failed() -> None:
    seen = world(
        three_sites(),
        transfers=[
            transfer(1, X.DELIVERING, heartbeat=NOW - 601),
            transfer(2, X.DELIVERING, heartbeat=NOW - 599),
            transfer(3, X.DELIVERING, heartbeat=None, since=NOW - 700),
            transfer(4, X.QUEUED, since=NOW - 9000),
            transfer(5, X.DELIVERING, heartbeat=NOW - 601, attempt=5),
        ],
        replicas=[replica("file1", "west"), replica("file1", "north-a")],
    )
    decision = abandoned(seen)
    assert [(move.ids, move.target) for move in decision.moves] == [
        ((1,), X.QUEUED),
        ((3,), X.QUEUED),
        ((5,), X.FAILED),
    ]
    assert decision.moves[0].changes["source"] == "west"
    assert "600 s" in str(decision.moves[0].changes["error"])
