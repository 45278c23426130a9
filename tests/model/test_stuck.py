"""What is stuck: by the past of its kind and place, above a floor and below a bound."""

from collections.abc import Sequence

import pytest

from pilotage.model.records.states import STATES, JobState, Kind, PilotState
from pilotage.model.rules.stuck import (
    EXPECTED,
    LONGEST_USUAL,
    Stay,
    StayingRecord,
    StuckGroup,
    limit_of,
    quantile,
    stuck,
    usual_times,
)
from pilotage.model.values.durations import HOUR

NOW = 1_000_000.0
ACTIVATED = EXPECTED["job", JobState.ACTIVATED].floor


def _past(place: str, *seconds: float, times: int = 1) -> list[Stay]:
    return [
        Stay(kind="job", state=JobState.ACTIVATED, place=place, seconds=one)
        for one in seconds
        for _ in range(times)
    ]


def _live(place: str, *ages: float) -> list[StayingRecord]:
    return [
        StayingRecord(
            kind="job",
            state=JobState.ACTIVATED,
            place=place,
            id=number,
            since=NOW - age,
            error=f"error {number}",
        )
        for number, age in enumerate(ages, 1)
    ]


def _stuck(past: Sequence[Stay], live: Sequence[StayingRecord]) -> list[StuckGroup]:
    return stuck(live, usual_times(past), NOW)


def test_without_a_past_the_floor_counts_and_the_oldest_is_named() -> None:
    (found,) = _stuck([], _live("north", 0.9 * ACTIVATED, 1.1 * ACTIVATED, 1.5 * ACTIVATED))
    assert (found.count, found.oldest, found.usual, found.limit) == (2, 3, None, ACTIVATED)
    assert found.error == "error 3"


def test_what_is_usually_slow_is_not_stuck_at_its_floor_and_other_places_have_their_own() -> None:
    past = [*_past("slow", 5 * HOUR, times=19), *_past("slow", 90 * HOUR), *_past("fast", 60.0, times=20)]
    live = [*_live("slow", 9 * HOUR), *_live("fast", 9 * HOUR)]
    assert [one.place for one in _stuck(past, live)] == ["fast"], "19 of 20 took 5 h, and twice that is 10 h"
    assert [one.place for one in _stuck(past, _live("slow", 11 * HOUR))] == ["slow"]
    assert [one.place for one in _stuck(past, _live("new", 11 * HOUR))] == ["new"], "all places together"


def test_too_few_of_the_past_tell_nothing_and_a_bound_ends_all_patience() -> None:
    assert usual_times(_past("north", 1.0, times=9)) == {}
    assert limit_of("job", JobState.ACTIVATED, 30 * LONGEST_USUAL) == LONGEST_USUAL


def test_the_worst_comes_first_and_records_that_wait_for_others_are_never_stuck() -> None:
    running = StayingRecord(kind="pilot", state=PilotState.RUNNING, place="north", id=1, since=0.0)
    found = _stuck([], [*_live("north", 3 * HOUR), *_live("south", 30 * HOUR), running])
    assert [one.place for one in found] == ["south", "north"]


@pytest.mark.parametrize(("kind", "state"), EXPECTED)
def test_every_kind_that_can_be_stuck_has_a_reason_and_a_command(kind: Kind, state: JobState) -> None:
    assert state in [*STATES[kind]]
    expected = EXPECTED[kind, state]
    assert expected.lack
    command = expected.command.format(id=7, task=4, place="north")
    assert command.startswith("pilotage ")
    assert "{" not in command


def test_a_quantile_is_the_smallest_value_that_so_many_do_not_exceed() -> None:
    assert [quantile(range(1, 21), part) for part in (0.01, 0.05, 0.94, 0.95, 1)] == [1, 1, 19, 19, 20]
    assert (quantile([7.0], 0.95), quantile([], 0.95)) == (7, 0)
