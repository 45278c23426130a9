"""Storages rest after deliveries that failed in a row, longer each time, and for an hour at most (F4)."""

from pilotage.model.records.constants import StagingConstants
from pilotage.model.records.storage_rests import FailedDelivery, StorageRest, resting_at, storage_rests
from pilotage.testing import NOW

CONSTANTS = StagingConstants(failing_files=3, storage_rest=60)


def failed(
    number: int, at: float, source: str = "a", destination: str = "", file: str = ""
) -> FailedDelivery:
    return FailedDelivery(
        transfer=number,
        attempt=1,
        file=file or f"f{number}",
        source=source,
        destination=destination,
        time=NOW + at,
        error="OSError: refused",
    )


def rests(*told: FailedDelivery, at: float) -> tuple[StorageRest, ...]:
    return storage_rests(told, CONSTANTS, NOW + at)


def test_f4_a_storage_rests_after_three_files_in_a_row() -> None:
    three = [failed(1, 0), failed(2, 1), failed(3, 2)]
    assert rests(*three[:2], at=2) == ()
    (rest,) = rests(*three, at=2)
    assert (rest.end, rest.until, rest.failures) == (("a", ""), NOW + 62, 3)
    assert "reading from a rests until" in rest.text
    assert "3 failed in a row, the last with: OSError: refused" in rest.text
    assert resting_at((rest,), NOW + 61)
    assert not resting_at((rest,), NOW + 62)


def test_f4_the_tries_of_one_file_close_no_storage() -> None:
    assert rests(*(failed(number, number, file="same") for number in range(9)), at=9) == ()


def test_f4_what_fails_during_a_rest_was_under_way_and_counts_nothing() -> None:
    told = [failed(number, 0) for number in (1, 2, 3)]
    assert rests(*told, *(failed(number, 59) for number in range(4, 30)), at=59) == rests(*told, at=59)


def test_f4_each_failed_try_doubles_the_rest_up_to_an_hour() -> None:
    told = [failed(number, 0) for number in (1, 2, 3)]
    expected = [60, 120, 240, 480, 960, 1920, 3600, 3600]
    for number, seconds in enumerate(expected):
        (rest,) = rests(*told, at=told[-1].time - NOW)
        assert rest.until - rest.since == seconds
        told.append(failed(10 + number, rest.until - NOW))


def test_f4_a_row_is_forgotten_when_nobody_tried_for_as_long_as_the_rest_was() -> None:
    told = [failed(number, 0) for number in (1, 2, 3)]
    assert rests(*told, at=119)
    assert rests(*told, at=120) == ()


def test_f4_reading_writing_and_a_pair_rest_by_themselves() -> None:
    ends = (("a", ""), ("", "a"), ("a", "b"))
    told = [failed(10 * place + number, 0, *end) for place, end in enumerate(ends, 1) for number in range(3)]
    found = rests(*told, at=1)
    assert {rest.end for rest in found} == set(ends)
    concerned = {rest.end: (rest.concerns("a", "b"), rest.concerns("b", "a")) for rest in found}
    assert concerned == {("a", ""): (True, False), ("", "a"): (False, True), ("a", "b"): (True, False)}


def by_pilot(number: int, node: str, task: int) -> FailedDelivery:
    return FailedDelivery(
        job=number,
        attempt=1,
        task=task,
        node=node,
        file=f"f{number}",
        source="a",
        destination="b",
        time=NOW + number,
        error="OSError: refused",
    )


def test_f4_pilots_are_believed_where_two_machines_and_two_tasks_agree() -> None:
    one_machine = [by_pilot(number, "n1", number) for number in range(9)]
    one_task = [by_pilot(number, f"n{number}", 1) for number in range(9)]
    assert rests(*one_machine, at=9) == rests(*one_task, at=9) == ()
    agreed = (by_pilot(1, "n1", 1), by_pilot(2, "n1", 1), by_pilot(3, "n2", 2))
    assert rests(*agreed[1:], at=3) == ()
    (rest,) = rests(*agreed, at=3)
    assert (rest.end, rest.failures) == (("a", "b"), 3)


def test_f4_a_delivery_that_failed_speaks_for_a_pilot() -> None:
    told = (by_pilot(1, "n1", 1), by_pilot(2, "n1", 1))
    assert rests(*told, at=3) == ()
    (rest,) = rests(*told, failed(3, 3, destination="b"), at=3)
    assert rest.end == ("a", "b")
