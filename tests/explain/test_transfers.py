"""A transfer is explained: how its priority came about, its place, who holds the slots, when it may start."""

from dataclasses import replace
from typing import Any

from pilotage.explain.transfers import PlaceInQueue, of_transfer
from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.records.federation import StagingConstants
from pilotage.model.records.states import TransferState as X
from pilotage.model.records.transfer_queues import DELIVERING, FINISHING, PREPARING, TransferCount
from pilotage.model.values.phrases import moment
from pilotage.testing import NOW, transfer

CONSTANTS = StagingConstants(base_priorities={"atlas": 80})
SHARES = {
    "atlas-download": {
        "priority": 80,
        "held": 2,
        "entitled": 2,
        "queued": 9,
        "started": 0,
        "emergency": 0,
    },
    "ligo-download": {
        "priority": 50,
        "held": 1,
        "entitled": 1,
        "queued": 0,
        "started": 0,
        "emergency": 0,
    },
}
NOTHING = {name: {**share, "held": 0, "queued": 0} for name, share in SHARES.items()}
ACCOUNTS: dict[str, dict[str, Any]] = {
    "preparing": {"slots": 20, "held": 0, "prepared": 9, "bound": 200, "shares": NOTHING},
    "delivering": {"slots": 3, "held": 3, "shares": SHARES},
    "finishing": {"slots": 20, "held": 0, "shares": NOTHING},
}
LIVE = [
    TransferCount(
        share=share,
        source="a",
        destination="b",
        state=state,
        size_class="",
        emergency=emergency,
        transfers=number,
    )
    for share, state, emergency, number in (
        ("atlas-download", X.DELIVERING, False, 1),
        ("atlas-download", X.DELIVERING, True, 1),
        ("atlas-download", X.PREPARED, False, 9),
        ("atlas-download", X.QUEUED, False, 30),
        ("ligo-download", X.DELIVERING, False, 1),
        ("belle-download", X.QUEUED, False, 5),
    )
]
WAITING = PlaceInQueue(
    queue=DELIVERING, ahead=3, full="", accounts=ACCOUNTS, live=LIVE, deliveries=2.0, lasting=60.0
)


def told(waiting: PlaceInQueue | None = WAITING, state: X = X.PREPARED, **values: object) -> list[str]:
    one = transfer(17, state, share="atlas-download", priority=40, **values)
    return [line.strip() for line in of_transfer(one, (), CONSTANTS, NOW, waiting)]


def test_a_waiting_transfer_tells_its_priority_place_and_who_holds_the_slots() -> None:
    assert told() == [
        "transfer 17 of file17: prepared, attempt 1",
        "download from north-a to east",
        "share atlas-download, of base priority 80; priority 40 = 80 x 50 / 100, rounded down",
        "number 4 of its share's queue for delivering, by priority and age",
        "3 of 3 slots of delivering are held, 1 of them in emergency:",
        "atlas-download, its share: 2 held, entitled to 2, 30 queued, 9 prepared",
        "belle-download: 0 held, entitled to 0, 5 queued",
        "ligo-download: 1 held, entitled to 1",
        f"its delivery is likely to start in about 2 min, at {moment(NOW + 120)}:"
        " the last deliveries took 1 min each",
    ]


def test_one_that_is_not_prepared_waits_behind_the_bound_and_what_its_share_has_prepared() -> None:
    full = {**ACCOUNTS, "preparing": {**ACCOUNTS["preparing"], "prepared": 200}}
    lines = told(replace(WAITING, queue=PREPARING, deliveries=5.0, accounts=full), X.QUEUED)
    assert lines[3] == "number 4 of its share's queue for preparing, by priority and age"
    assert lines[4] == "200 are prepared and wait for their delivery, the most that may"
    assert lines[5].startswith("3 of 3 slots of delivering are held")
    assert lines[-1].startswith("its delivery is likely to start in about 5 min")


def test_one_that_is_delivered_waits_to_be_finished() -> None:
    waiting = replace(WAITING, queue=FINISHING)
    assert told(waiting, X.DELIVERED)[-1] == "it is likely to be finished after those before it"


def test_what_stands_in_its_way_and_what_age_gives_it_are_told() -> None:
    lines = told(replace(WAITING, full="north to east"), since=NOW - 4300, wake_at=NOW + 60, error="cut")
    assert "having waited for 72 min, it goes as if it had 2 more" in lines
    assert "north to east takes no more transfers now: its limit is reached" in lines
    assert any(line.startswith("not tried again before") for line in lines)
    assert lines[-1] == "error: cut"


def test_the_first_of_a_share_that_is_given_slots_starts_now() -> None:
    given = {name: {**share, "started": 4} for name, share in SHARES.items()}
    accounts = {**ACCOUNTS, "delivering": {**ACCOUNTS["delivering"], "shares": given}}
    assert "it is likely to start delivering now" in told(replace(WAITING, accounts=accounts))
    assert "when it is delivered cannot be predicted: nothing was delivered lately" in told(
        replace(WAITING, lasting=None)
    )


def test_a_priority_above_that_of_its_share_was_given_by_hand() -> None:
    one = transfer(17, X.DELIVERING, share="atlas-download", priority=95, emergency=True)
    lines = list(of_transfer(one, (), CONSTANTS, NOW, None))
    assert lines[2].endswith("priority 95, given by hand or by a better share")
    assert lines[-1] == "  it holds an emergency slot"


def test_what_is_not_tried_before_a_time_does_not_start_before_it() -> None:
    lines = told(wake_at=NOW + 3600)
    assert f"its delivery is likely to start in about 60 min, at {moment(NOW + 3600)}" in "\n".join(lines)


def test_what_waits_for_an_open_breaker_has_no_time() -> None:
    breaker = CircuitBreaker(
        kind="storage", place=("north-a", ""), until=NOW + 60, failures=3, since=NOW, error="no answer"
    )
    lines = told(replace(WAITING, full="north-a", breaker=breaker))
    assert "when it starts cannot be predicted: that circuit breaker may stay open longer" in lines
