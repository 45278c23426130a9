"""Circuit breakers: of storages after deliveries that failed in a row (F4), and what all have in common."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.circuit_breakers.breaker import (
    CircuitBreaker,
    FailedBatch,
    Kind,
    each_opens,
    open_at,
    seen_by,
    without_payload_error,
)
from pilotage.model.circuit_breakers.storages import FailedDelivery, one_line, storage_breakers
from pilotage.model.records.constants import DirectorConstants, StagingConstants
from pilotage.model.values.identity import Identity
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


def breakers(*told: FailedDelivery, at: float) -> tuple[CircuitBreaker, ...]:
    return storage_breakers(told, CONSTANTS, NOW + at)


def test_f4_a_breaker_opens_after_three_files_in_a_row() -> None:
    three = [failed(1, 0), failed(2, 1), failed(3, 2)]
    assert breakers(*three[:2], at=2) == ()
    (found,) = breakers(*three, at=2)
    assert (found.place, found.until, found.failures) == (("a", ""), NOW + 62, 3)
    assert "reading from a: circuit breaker open until" in found.sentence
    assert "3 deliveries failed, one after the other; the last: OSError: refused" in found.sentence
    assert open_at((found,), NOW + 61)
    assert not open_at((found,), NOW + 62)


def test_f2_nobody_sees_what_payloads_of_others_wrote() -> None:
    """A breaker for everybody tells anybody's error: only operators read it."""
    times: dict[str, Any] = {"since": NOW, "until": NOW + 60, "failures": 5}
    both = CircuitBreaker(kind="node", place=("q", "n"), error="bob's word", **times)
    bobs = replace(both, whose=("atlas", "bob", 7))
    server = CircuitBreaker(kind="server", place=("q", "door"), error="refused", **times)
    bob, alice = Identity(name="bob", vo="atlas"), Identity(name="bob", vo="belle")
    assert seen_by((both, bobs, server), None) == (both, bobs, server)
    assert seen_by((both, bobs, server), bob) == (without_payload_error(both), bobs, server)
    assert seen_by((both, bobs, server), alice) == (without_payload_error(both), server)
    assert "bob" not in without_payload_error(both).sentence


def test_f4_a_breaker_names_nobodys_file() -> None:
    told = [
        replace(failed(1, 0, file=f"atlas:raw/{n}"), error=f"cannot read raw/{n}: refused") for n in "abc"
    ]
    (found,) = breakers(*told, at=0)
    assert found.error == "cannot read FILE: refused"


@pytest.mark.parametrize(
    ("file", "job", "told", "shown"),
    [
        ("atlas:my raw/é", 0, "GET https://h/my%20raw/%C3%A9: 403", "GET https://h/FILE: 403"),
        ("atlas:raw/run.dat", 0, "'/data/ada/run.dat': Permission denied", "'FILE': Permission denied"),
        ("7/out.txt", 7, "/data/scratch/7/1/out.txt: No space", "/data/scratch/7/1/FILE: No space"),
        ("atlas:my raw/" + "x" * 300, 0, "cannot read my raw/" + "x" * 300, "cannot read FILE ..."),
        ("atlas:raw/run.dat", 0, "denied: /ada/" + "y" * 300, "denied: FILE ..."),
        ("atlas:a", 0, "a cat", "a cat"),
    ],
)
def test_f4_a_breaker_names_no_part_of_a_file(file: str, job: int, told: str, shown: str) -> None:
    """Names are quoted in URLs, differ at other paths, and are cut at the end of long errors."""
    last = replace(failed(3, 1, file=file), error=one_line(told), job=job, task=job, node="n" if job else "")
    (found,) = breakers(failed(1, 0), failed(2, 0), last, at=1)
    assert found.error == shown


def test_f4_the_attempts_of_one_file_close_no_storage() -> None:
    assert breakers(*(failed(number, number, file="same") for number in range(9)), at=9) == ()


def test_f4_what_fails_while_it_is_open_was_under_way_and_counts_nothing() -> None:
    told = [failed(number, 0) for number in (1, 2, 3)]
    assert breakers(*told, *(failed(number, 59) for number in range(4, 30)), at=59) == breakers(*told, at=59)


def test_f4_each_failed_probe_doubles_the_time_up_to_an_hour() -> None:
    told = [failed(number, 0) for number in (1, 2, 3)]
    expected = [60, 120, 240, 480, 960, 1920, 3600, 3600]
    for number, seconds in enumerate(expected):
        (found,) = breakers(*told, at=told[-1].time - NOW)
        assert found.until - found.since == seconds
        told.append(failed(10 + number, found.until - NOW))


def test_f4_a_breaker_closes_when_nobody_probed_for_as_long_as_it_was_open() -> None:
    told = [failed(number, 0) for number in (1, 2, 3)]
    assert breakers(*told, at=119)
    assert breakers(*told, at=120) == ()


def test_f4_reading_writing_and_a_pair_have_breakers_of_their_own() -> None:
    ends = (("a", ""), ("", "a"), ("a", "b"))
    told = [failed(10 * place + number, 0, *end) for place, end in enumerate(ends, 1) for number in range(3)]
    found = breakers(*told, at=1)
    assert {one.place for one in found} == set(ends)
    concerned = {one.place: (one.concerns("a", "b"), one.concerns("b", "a")) for one in found}
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
    assert breakers(*one_machine, at=9) == breakers(*one_task, at=9) == ()
    agreed = (by_pilot(1, "n1", 1), by_pilot(2, "n1", 1), by_pilot(3, "n2", 2))
    assert breakers(*agreed[1:], at=3) == ()
    (found,) = breakers(*agreed, at=3)
    assert (found.place, found.failures) == (("a", "b"), 3)


def test_f4_a_delivery_that_failed_speaks_for_a_pilot() -> None:
    told = (by_pilot(1, "n1", 1), by_pilot(2, "n1", 1))
    assert breakers(*told, at=3) == ()
    (found,) = breakers(*told, failed(3, 3, destination="b"), at=3)
    assert found.place == ("a", "b")


def test_p6_each_batch_of_failures_opens_for_longer_and_counts_once() -> None:
    def opened(*ends: tuple[float, float]) -> float:
        found = each_opens(
            (FailedBatch(time, batch, "") for time, batch in ends), DirectorConstants().open_for
        )
        assert found is not None
        assert found.since == max(time for time, _ in ends)
        return found.until - found.since

    assert opened((1, 1)) == opened((1, 1), (1, 1)) == opened((1, 1), (5, 1)) == 60
    assert opened((1, 1), (2, 2)) == 120, "also what was under way before it opened"
    assert opened(*((at, at) for at in range(20))) == 3600
    assert each_opens((), DirectorConstants().open_for) is None


@pytest.mark.parametrize(
    ("kind", "place", "names", "what"),
    [
        ("server", ("q", ""), {"q"}, "pilots at q"),
        ("server", ("q", "ce1"), {"q", "q/ce1"}, "pilots at q/ce1"),
        ("list-match", ("q", "ce1"), {"q", "q/ce1"}, "list-match at q/ce1"),
        ("empty-pilots", ("q", "GPUs"), {"q"}, "pilots at q for jobs that need GPUs"),
        ("queue", ("q", ""), {"q"}, "jobs at q for everybody"),
        ("node", ("q", "n1"), {"q", "n1", "q/n1"}, "jobs at q/n1 for everybody"),
        ("storage", ("", "b"), {"b"}, "writing to b"),
        ("storage", ("a", "b"), {"a", "b"}, "moving from a to b"),
    ],
)
def test_each_kind_has_names_by_which_it_is_lifted(
    kind: Kind, place: tuple[str, str], names: set[str], what: str
) -> None:
    one = CircuitBreaker(kind=kind, place=place, since=1, until=2, failures=1, error="")
    assert ({*one.names}, one.what) == (names, what)
    assert (one.state(1.9), one.state(2)) == ("open", "half-open")
    assert one.reason.endswith(": no reason was given")
