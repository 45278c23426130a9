"""Advertisements that native sites make of their batch systems' answers (M2, M5)."""

import pytest

from pilotage.model.documents.decision import Create
from pilotage.model.records.advertisements import Advertisement, NewAdvertisement
from pilotage.model.records.observations import ServerReport
from pilotage.policies.pilots.advertising import advertise
from pilotage.testing import NOW, federation, queue, world


def advertised(*answered: float | None, told: float | None = NOW - 400) -> NewAdvertisement | None:
    """Return the new advertisement of a site whose servers answered so many s ago, the last one ``told``."""
    ads: tuple[Advertisement, ...] = ()
    if told is not None:
        ads = (Advertisement(site="HOME", source="native", number=3, time=told, pilots=0, submitting=0),)
    reports = (
        ServerReport(
            queue="Q", server=f"s{number}", running=2, waiting=1, answered=None if age is None else NOW - age
        )
        for number, age in enumerate(answered)
    )
    of = federation([queue("Q")])
    changes = advertise(world(of, advertisements=ads, server_reports=reports)).changes
    if not changes:
        return None
    (change,) = changes
    assert isinstance(change, Create)
    (record,) = change.records
    assert isinstance(record, NewAdvertisement)
    return record


@pytest.mark.parametrize(
    ("answered", "age"), [((100.0,), 100), ((250.0, 30.0), 30), ((None, 399.0), 399), ((0.0, None), 0)]
)
def test_m2_an_ad_is_as_old_as_the_last_answer(answered: tuple[float | None, ...], age: float) -> None:
    """A pass that comes late makes no answer younger."""
    record = advertised(*answered)
    assert record is not None
    assert (record.answered, record.replaces) == (NOW - age, 3)


@pytest.mark.parametrize("answered", [(), (None,), (400.0,), (5000.0, None)])
def test_m2_without_a_new_answer_there_is_no_new_ad(answered: tuple[float | None, ...]) -> None:
    assert advertised(*answered) is None
    assert (advertised(*answered, told=None) is None) == (set(answered) <= {None})


def counted_pilots(*reports: ServerReport) -> tuple[int, int]:
    """Return our pilots, and the waiting ones, that a site's ad subtracts from its jobs."""
    of = federation([queue("A"), queue("B")])
    (change,) = advertise(world(of, server_reports=reports)).changes
    assert isinstance(change, Create)
    (record,) = change.records
    assert isinstance(record, NewAdvertisement)
    return record.pilots, record.submitting


def report(name: str, age: float, scope: str, waiting: int = 1, **pilots: int) -> ServerReport:
    submitting = dict.fromkeys(pilots, waiting)
    return ServerReport(
        queue=name,
        scope=scope,
        answered=NOW - age,
        running=9,
        waiting=9,
        pilots=pilots,
        submitting=submitting,
    )


def test_m5_only_pilots_of_the_answer_that_counts_are_subtracted() -> None:
    """Three of A's pilots had ended when B's server counted the same queue of the batch system."""
    assert counted_pilots(report("A", 60, "main", A=5, B=4), report("B", 0, "main", A=2, B=4)) == (6, 2)
    assert counted_pilots(report("A", 0, "main", A=5), report("B", 60, "main", B=4)) == (5, 1)


def test_m5_pilots_of_other_queues_of_the_batch_system_are_none_of_this_count() -> None:
    assert counted_pilots(report("A", 60, "main", A=5, B=4), report("B", 0, "long", A=2, B=4)) == (9, 2)
    assert counted_pilots(report("A", 0, "", A=5, B=1), report("B", 0, "", A=1, B=4)) == (9, 2)
