"""A plan follows from its seed, and has every kind of fault."""

from collections import Counter

from .faults import KINDS as FAULTS
from .plan import planned
from .work import KINDS as WORK

SPANS = {kind: fault.span for kind, fault in FAULTS.items()}


def test_a_seed_gives_the_same_storm_and_another_one_another() -> None:
    assert planned(7, 300, SPANS, sorted(WORK)) == planned(7, 300, SPANS, sorted(WORK))
    assert planned(7, 300, SPANS, sorted(WORK)) != planned(8, 300, SPANS, sorted(WORK))


def test_every_kind_of_fault_and_work_comes_and_all_are_over_in_time() -> None:
    plan = planned(7, 300, SPANS, sorted(WORK))
    assert {strike.kind for strike in plan.strikes} == set(FAULTS)
    assert {arrival.kind for arrival in plan.arrivals} == set(WORK)
    assert max(strike.at + strike.seconds for strike in plan.strikes) <= 300
    assert max(Counter(arrival.kind for arrival in plan.arrivals).values()) < len(plan.arrivals) / 3


def test_a_short_storm_has_short_faults() -> None:
    plan = planned(7, 60, SPANS, sorted(WORK))
    assert max(strike.seconds for strike in plan.strikes) <= 20
