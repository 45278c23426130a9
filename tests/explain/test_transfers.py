"""A transfer is explained: how its priority came about, its place, who holds the slots, when it may start."""

from dataclasses import replace

from pilotage.explain.transfers import Waiting, of_transfer
from pilotage.model.federation import StagingConstants
from pilotage.model.states import TransferState as X
from pilotage.testing import NOW, transfer

CONSTANTS = StagingConstants(base_priorities={"atlas": 80})
ACCOUNT = {
    "atlas-download": {"delivering": 2, "entitled": 2, "queued": 9, "started": 0, "emergency": 0},
    "ligo-download": {"delivering": 1, "entitled": 1, "queued": 0, "started": 0, "emergency": 0},
}
WAITING = Waiting(ahead=3, full="", slots=3, account=ACCOUNT, lasting=60.0)


def told(waiting: Waiting | None = WAITING, **values: object) -> list[str]:
    one = transfer(17, X.QUEUED, share="atlas-download", priority=40, **values)
    return [line.strip() for line in of_transfer(one, (), CONSTANTS, NOW, waiting)]


def test_a_queued_transfer_tells_its_priority_place_and_who_holds_the_slots() -> None:
    assert told() == [
        "transfer 17 of file17: queued, attempt 1",
        "download from north-a to east",
        "share atlas-download, of base priority 80; priority 40 = 80 x 50 / 100, rounded down (D2)",
        "number 4 of its share's queue, by priority and age",
        "3 of 3 delivery slots are held:",
        "atlas-download, its share: 2 held, entitled to 2, 9 queued",
        "ligo-download: 1 held, entitled to 1, 0 queued",
        "it is likely to start in about 2 min: the last deliveries took 1 min each",
    ]


def test_what_stands_in_its_way_and_what_age_gives_it_are_told() -> None:
    lines = told(replace(WAITING, full="north to east"), since=NOW - 4300, wake_at=NOW + 60, error="cut")
    assert "having waited for 72 min, it goes as if it had 2 more (D7)" in lines
    assert "north to east takes no more transfers now: its limit is reached" in lines
    assert "when it starts cannot be told now" in lines
    assert any(line.startswith("not tried again before") for line in lines)
    assert lines[-1] == "error: cut"


def test_the_first_of_a_share_that_is_given_slots_starts_now() -> None:
    given = {name: {**share, "started": 4} for name, share in ACCOUNT.items()}
    assert "it is likely to start now" in told(replace(WAITING, account=given))
    assert "when it starts cannot be told: nothing was delivered lately" in told(
        replace(WAITING, lasting=None)
    )


def test_a_priority_above_that_of_its_share_was_given_by_hand() -> None:
    one = transfer(17, X.DELIVERING, share="atlas-download", priority=95, emergency=True)
    lines = list(of_transfer(one, (), CONSTANTS, NOW, None))
    assert lines[2].endswith("priority 95, given by hand or by a better share (D2, D9)")
    assert lines[-1] == "  it holds an emergency slot (D5)"
