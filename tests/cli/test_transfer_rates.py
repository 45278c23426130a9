"""Rates of transfers and the time left, as ``pilotage transfers --watch`` tells them."""

from typing import Any

from pilotage.cli.data.transfer_rates import TransferRates


def look(time: float, done: int, *moving: tuple[int, int | None], queued: int = 0) -> dict[str, Any]:
    """Return an answer of the server: transfers of 100 MB by number, with the MB that were moved."""
    ends = {"file": "f", "source": "a", "destination": "b", "share": "s", "since": 0.0, "attempt": 1}
    return {
        "time": time,
        "counts": {"done": done, "queued": queued},
        "shares": {"s": {"done": done, "queued": queued}},
        "delivering": [
            {"id": id_, "size": 10**8, "moved": None if moved is None else moved * 10**6, **ends}
            for id_, moved in moving
        ],
    }


def test_two_looks_tell_rate_and_time_left() -> None:
    rates = TransferRates()
    rates.update(look(0, 5, (1, 10), (2, None), queued=8))
    assert rates.rows()[0][4:] == ("10% of 100.0 MB", "", "")
    rates.update(look(2, 7, (1, 30), (2, None), (3, 50), queued=7))
    assert rates.rows() == [
        (1, "f", "b", "s", "30% of 100.0 MB", "10.0", "7 s"),
        (2, "f", "b", "s", "at another server", "", ""),
        (3, "f", "b", "s", "50% of 100.0 MB", "", ""),
    ]
    assert rates.summary() == (
        "3 transfers delivered at 10.0 MB/s, 7 waiting; 1.0 done a second, about 10 s left"
    )


def test_a_new_rate_is_smoothed_by_those_before() -> None:
    rates = TransferRates()
    for second, moved in enumerate((0, 10, 30)):
        rates.update(look(second, 0, (1, moved)))
    assert rates.rows()[0][5] == "15.0"


def test_nothing_under_way_is_told_too() -> None:
    rates = TransferRates()
    rates.update(look(0, 0))
    assert rates.summary() == "0 transfers delivered at 0.0 MB/s, 0 waiting"


def test_shares_are_told_with_their_own_rates() -> None:
    rates = TransferRates()
    for second, done in ((0, 5), (2, 7)):
        seen = look(second, done, (1, 10 * second), (2, 20 * second), queued=8)
        seen["shares"]["idle"] = {"done": 4}
        rates.update(seen)
    assert rates.shares() == [("s", 2, 8, "30.0", "1.0", "10 s")]


def test_a_small_screen_shows_the_shares_and_as_many_transfers_as_fit() -> None:
    rates = TransferRates()
    rates.update(look(0, 0, *((number, 10) for number in range(1, 41)), queued=300))
    lines = rates.screen(60, 24)
    assert len(lines) < 24
    assert all(len(line) <= 60 for line in lines)
    assert lines[0].startswith("40 transfers delivered")
    assert any(line.startswith("s ") and "300" in line for line in lines)
    assert lines[-1] == "and 24 more"
