"""Targets of global shares that follow what the shares used."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.records.quotas import GlobalShare, ShareUseConstants
from pilotage.model.rules.global_shares import LEAST_TARGET, FollowedTarget, following, mean_use
from pilotage.model.values.durations import DAY, HOUR
from pilotage.store import ShareSample, Store
from pilotage.testing.stores import FEDERATION

SHARES = (GlobalShare(name="production", target=80), GlobalShare(name="analysis", target=20))


def targets(shares: tuple[GlobalShare, ...], **use: float) -> dict[str, float]:
    return {name: share.target for name, share in following(shares, use).items()}


def test_who_used_their_part_keeps_the_target() -> None:
    assert targets(SHARES, production=8, analysis=2) == {"production": 80, "analysis": 20}
    assert targets(SHARES) == {"production": 80, "analysis": 20}


def test_who_used_nothing_has_twice_as_much_and_who_used_twice_their_part_half() -> None:
    assert targets(SHARES, production=10)["analysis"] == 40
    assert targets(SHARES, production=6, analysis=4)["analysis"] == 10
    assert targets(SHARES, analysis=10)["analysis"] == 20 * LEAST_TARGET


def test_siblings_are_compared_with_all_below_them() -> None:
    shares = (
        *SHARES,
        GlobalShare(name="higgs", parent="analysis"),
        GlobalShare(name="top", parent="analysis"),
    )
    followed = following(shares, {"production": 8, "higgs": 2})
    assert followed["analysis"] == FollowedTarget(used=0.2, target=20)
    assert followed["higgs"] == FollowedTarget(used=1, target=0.5)
    assert followed["top"] == FollowedTarget(used=0, target=2)


def test_a_share_without_target_gets_none() -> None:
    shares = (*SHARES, GlobalShare(name="spare", target=0))
    assert targets(shares, spare=10)["spare"] == 0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=6))
def test_no_target_leaves_its_bounds_and_less_use_gives_no_less(drawn: list[tuple[float, float]]) -> None:
    shares = tuple(GlobalShare(name=str(at), target=target) for at, (target, _) in enumerate(drawn))
    followed = following(shares, {str(at): use for at, (_, use) in enumerate(drawn)})
    for share in shares:
        assert share.target * LEAST_TARGET * 0.99 <= followed[share.name].target <= share.target * 2.01
    excess = {
        share.name: (followed[share.name].used / share.target, followed[share.name].target / share.target)
        for share in shares
        if share.target > 1e-6
    }
    for used, ratio in excess.values():
        assert all(other >= ratio * 0.98 for less, other in excess.values() if less <= used)


def test_older_use_counts_less() -> None:
    now = 100 * DAY
    spans = [(now - 7 * DAY, "production", 30.0), (now, "analysis", 30.0)]
    use = mean_use(spans, now, half_life=7)
    assert use["analysis"] == pytest.approx(2 * use["production"])


def test_the_federation_in_force_has_targets_that_follow_and_its_declaration_does_not(store: Store) -> None:
    declared = replace(FEDERATION, shares=SHARES, share_use=ShareUseConstants(window=7, half_life=7))
    store.save_federation(declared, "test")
    before = store.federation()
    now = store.clock()
    sample = [ShareSample(share="production", running=10, used=1.0, target=0.8)]
    store.past.add_sample(sample, now - HOUR)
    store.past.follow_use(store.declared_federation(), now)
    assert {share.name: share.target for share in store.federation().shares} == {
        "production": pytest.approx(67.3, rel=0.01),
        "analysis": 40,
    }
    assert store.declared_federation() == declared
    shown = {share.name: share for share in store.queries.shares()}
    assert (shown["analysis"].target, shown["analysis"].used, shown["analysis"].follows) == (20, 0, 40)
    in_force = store.federation()
    store.past.follow_use(declared, now)
    assert store.federation() is in_force, "nothing is read again if no target changed"
    store.past.follow_use(replace(declared, share_use=ShareUseConstants()), now)
    assert store.federation() == before
    assert store.queries.shares()[0].follows is None
