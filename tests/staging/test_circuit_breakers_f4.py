"""Staging leaves alone what a breaker closes: another source first, one probe, others go on (F4)."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.documents.decision import Decision, Forget, Move
from pilotage.model.documents.world import World
from pilotage.model.records.observations import DeliverySighting, Fault
from pilotage.model.records.states import TransferState as X
from pilotage.model.records.work import Transfer
from pilotage.policies.staging import deliveries, preparing, retries, slots
from pilotage.policies.staging.sources_now import SourcesNow
from pilotage.testing import NOW, file, replica, three_sites, transfer, world

OPEN, HALF_OPEN = NOW - 30.0, NOW - 61.0
"""Times of failures whose breaker, of 60 s, is open at NOW, or half-open."""


def failures(at: float, source: str = "north-a", destination: str = "") -> tuple[FailedDelivery, ...]:
    return tuple(
        FailedDelivery(
            transfer=900 + number,
            attempt=1,
            file=f"bad{number}",
            source=source,
            destination=destination,
            time=at,
            error="refused",
        )
        for number in range(3)
    )


def of(transfers: list[Transfer], told: tuple[FailedDelivery, ...] = (), **more: Any) -> World:
    """A world in which every file lies at north-a, and those of transfers from 50 on at west too."""
    held = [replica(one.file, "north-a") for one in transfers]
    held += [replica(one.file, "west") for one in transfers if one.id >= 50]
    return world(
        three_sites(sub_shares=False),
        transfers=transfers,
        failed_deliveries=told,
        files=[file(one.file) for one in transfers],
        replicas=held,
        **more,
    )


def moved(decision: Decision, target: X) -> list[int]:
    return sorted(id_ for move in decision.moves if move.target is target for id_ in move.ids)


def test_f4_nothing_is_prepared_that_only_a_closed_storage_has_and_others_go_on() -> None:
    queued = [transfer(number, X.QUEUED) for number in (1, 2, 50, 51)]
    back = transfer(3, X.QUEUED, source="east", destination="north-a")
    seen = of([*queued, back], failures(OPEN))
    seen = replace(seen, replicas=(*seen.replicas, replica("file3", "east")))
    assert moved(preparing.prepare(seen), X.PREPARING) == [3, 50, 51]


def test_f4_a_file_that_another_storage_has_comes_from_there() -> None:
    found = preparing.prepare(of([transfer(50, X.PREPARING), transfer(1, X.PREPARING)], failures(OPEN)))
    chosen = {id_: move.changes["source"] for move in found.moves for id_ in move.ids}
    assert chosen == {50: "west", 1: "north-a"}


@pytest.mark.parametrize("end", [("north-a", ""), ("", "east"), ("north-a", "east")])
def test_f4_what_is_prepared_already_goes_back_and_is_not_delivered(end: tuple[str, str]) -> None:
    prepared = [transfer(number, X.PREPARED) for number in (1, 2)]
    seen = of(prepared, failures(OPEN, *end))
    assert moved(preparing.prepare(seen), X.QUEUED) == [1, 2]
    assert moved(slots.start(seen), X.DELIVERING) == []


def test_f4_what_is_put_back_takes_no_room_from_others() -> None:
    prepared = [transfer(number, X.PREPARED, share="a") for number in range(1, 201)]
    other = transfer(300, X.QUEUED, source="west", share="b", file="elsewhere")
    seen = of([*prepared, other], failures(OPEN))
    seen = replace(seen, replicas=(*seen.replicas, replica("elsewhere", "west")))
    assert moved(preparing.prepare(seen), X.PREPARING) == [300]


def test_f4_half_open_one_probes() -> None:
    queued = [transfer(number, X.QUEUED) for number in range(1, 9)]
    (probing,) = moved(preparing.prepare(of(queued, failures(HALF_OPEN))), X.PREPARING)
    under_way = [replace(one, state=X.PREPARED) if one.id == probing else one for one in queued]
    seen = of(under_way, failures(HALF_OPEN))
    assert moved(preparing.prepare(seen), X.PREPARING) == []
    assert moved(slots.start(seen), X.DELIVERING) == [probing]
    (move,) = slots.start(seen).moves
    assert [claim.limit for claim in move.claims if claim.key == ("north-a", None, None)] == [1]


def told(fault: Fault, state: str = "failed", of_: int = 1) -> DeliverySighting:
    return DeliverySighting(transfer=of_, attempt=1, state=state, error="it broke\nbadly", fault=fault)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fault", "end"),
    [("source", ("north-a", "")), ("destination", ("", "east")), ("file", None), ("", None)],
)
def test_f4_only_what_a_storage_is_to_blame_for_counts(fault: Fault, end: tuple[str, str] | None) -> None:
    found = deliveries.observed(of([transfer(1, X.DELIVERING)], deliveries=[told(fault)]))
    made = [one for move in found.moves for one in move.creates.get(1, ())]
    assert [(one.end, one.error) for one in made if isinstance(one, FailedDelivery)] == (
        [(end, "it broke")] if end else []
    )


def test_f4_what_fails_while_the_breaker_is_open_is_not_counted() -> None:
    found = deliveries.observed(of([transfer(1, X.DELIVERING)], failures(OPEN), deliveries=[told("source")]))
    assert [move.creates for move in found.moves] == [{}]


def test_f4_a_delivery_without_a_sign_of_life_speaks_against_the_pair() -> None:
    silent = transfer(1, X.DELIVERING, heartbeat=NOW - 5000)
    (move,) = retries.abandoned(of([silent])).moves
    (made,) = move.creates[1]
    assert isinstance(made, FailedDelivery)
    assert made.end == ("north-a", "east")


def test_f4_a_success_ends_the_row_of_both_ends_and_no_other() -> None:
    told_of = (*failures(OPEN), *failures(OPEN, "west"), *failures(OPEN, "north-a", "east"))
    found = deliveries.observed(of([transfer(1, X.DELIVERING)], told_of, deliveries=[told("", "delivered")]))
    cleared = [change.failed_at for change in found.changes if isinstance(change, Forget)]
    assert cleared == [(("north-a", ""), ("north-a", "east"))]
    quiet = deliveries.observed(of([transfer(1, X.DELIVERING)], deliveries=[told("", "delivered")]))
    assert all(isinstance(change, Move) for change in quiet.changes)


def test_f4_a_later_attempt_leaves_a_source_with_an_open_breaker() -> None:
    seen = of([transfer(50, X.PREPARING, attempt=2)], failures(OPEN))
    assert SourcesNow(seen).settled(seen.transfers[0]) == "west"
    assert SourcesNow(of([seen.transfers[0]])).settled(seen.transfers[0]) == "north-a"
