"""A recovery counts only while some server could be reached."""

from .recovery import Recovery, Struck, longest_calm, outages_of, too_slow


def test_all_servers_are_away_by_one_fault_or_by_two() -> None:
    strikes = [
        Struck("a server", 0, 10, {0}),
        Struck("the other", 5, 12, {1}),
        Struck("a pilot", 6, 7, ()),
        Struck("the database", 10, 20, {0, 1}),
        Struck("a server", 30, 40, {1}),
    ]
    assert outages_of(strikes, 2) == [(5, 20)]


def test_the_longest_time_without_an_outage_counts() -> None:
    assert longest_calm(0, 9, []) == 9
    assert longest_calm(10, 50, [(0, 5), (12, 20), (19, 40), (60, 70)]) == 10
    assert longest_calm(10, 20, [(5, 30)]) <= 0
    assert longest_calm(10, 30, [(15, 40)]) == 5


def test_a_slow_machine_may_take_longer() -> None:
    recoveries = {"a pilot": Recovery([14, 20], [170, 190])}
    assert len(list(too_slow(recoveries, 1))) == 2
    assert list(too_slow(recoveries, 1.5)) == []
