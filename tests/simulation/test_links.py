"""Virtual links share what they carry evenly."""

from pilotage.simulation.clock import VirtualClock
from pilotage.simulation.links import FairLinks


def arrivals(
    *flows: tuple[float, float], throughput: float = 10, cancelled: int | None = None
) -> list[float]:
    """Times at which flows of (begin, MB) over one link arrive, in their order; -1 for those that do not."""
    clock = VirtualClock(0)
    links = FairLinks(clock, lambda _: throughput)
    times = [-1.0] * len(flows)
    numbers: dict[int, int] = {}

    def begin(place: int, size: float) -> None:
        numbers[place] = links.begin(("a", "b"), size, lambda: times.__setitem__(place, round(clock(), 6)))

    for place, (at, size) in enumerate(flows):
        clock.after(at, lambda place=place, size=size: begin(place, size))  # type: ignore[misc]
    if cancelled is not None:
        clock.after(5, lambda: links.cancel(numbers[cancelled]))
    while clock() < 1000:
        clock.advance(1000)
    return times


def test_one_flow_has_the_whole_link() -> None:
    assert arrivals((0, 100)) == [10]


def test_flows_share_evenly_from_when_each_begins() -> None:
    # The first has half of its bytes when the second comes; then both go at half the rate.
    assert arrivals((0, 100), (5, 100)) == [15, 20]


def test_what_is_cancelled_leaves_its_part_to_the_others() -> None:
    assert arrivals((0, 100), (0, 100), cancelled=1) == [12.5, -1]


def test_flows_of_equal_size_arrive_together() -> None:
    assert arrivals((0, 50), (0, 50)) == [10, 10]
