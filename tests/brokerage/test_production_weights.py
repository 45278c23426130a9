"""The weights of the production brokerage, B30 to B35, by the rule's number."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest

from pilotage.model.documents.world import World
from pilotage.model.records.federation import ComputingElement, Link
from pilotage.model.records.work import File, Replica
from pilotage.policies.brokerage.engine.link_weights import throughput_weight
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.production.placement import capacity, initial_weight
from pilotage.testing import NOW, federation, jobs, jobs_at, queue, queue_report, task, waiting_on_link, world
from pilotage.testing.choices import decide, only_choice

TWO_SITES = federation([queue("NEAR"), queue("FAR", site="AWAY")])
SITES = ("HOME", "AWAY", "HOME")


def _capacity(
    *,
    running: int = 0,
    workers: int = 0,
    starting: int = 0,
    num_slots: int | None = None,
    silent: float | None = None,
    **attributes: Any,
) -> float:
    """R of a queue whose last pilot called ``silent`` s ago; None: none ever did."""
    house = federation([queue(num_slots=num_slots, **{"computing_element": None} | attributes)])
    state = world(
        house,
        job_counts=jobs_at("Q", running=running, starting=starting),
        queue_reports=(
            queue_report("Q", batch_workers=workers, last_pilot=None if silent is None else NOW - silent),
        ),
    )
    columns = QueueColumns.of(house).during(state)
    return float(capacity(columns, columns.live.of_share("default"))[0])


def test_b30_capacity_is_the_largest_of_its_numbers() -> None:
    assert _capacity() == 0
    assert _capacity(running=7) == 7
    assert _capacity(running=7, workers=9) == 9
    assert _capacity(running=7, workers=50) == 20
    assert _capacity(running=19, workers=50) == 20
    assert _capacity(running=20, workers=50) == 20
    assert _capacity(running=25, workers=50) == 25
    assert _capacity(running=7, num_slots=100) == 100
    assert _capacity(running=200, num_slots=100) == 200


def test_b30_starting_jobs_count_only_where_num_slots_is_zero() -> None:
    assert _capacity(running=1, starting=5, num_slots=0) == 5
    assert _capacity(running=1, starting=5) == 1
    assert _capacity(running=1, starting=5, num_slots=2) == 2


OWN = ComputingElement(max_pilots=30, pilot_slots=8)


def test_b30_slots_of_our_own_pilots_count_while_pilots_call() -> None:
    for silent in (0.0, 3 * 3600.0):
        assert _capacity(running=7, silent=silent, computing_element=OWN) == 240
        assert _capacity(running=250, silent=silent, computing_element=OWN) == 250


def test_b30_slots_of_our_own_pilots_count_as_twenty_where_none_ever_called() -> None:
    assert _capacity(computing_element=OWN) == 20
    assert _capacity(computing_element=replace(OWN, max_pilots=2)) == 16
    assert _capacity(running=25, computing_element=OWN) == 25
    assert _capacity(workers=50, computing_element=OWN) == 20, "no more than what batch workers promise"


def test_b30_slots_of_our_own_pilots_count_nothing_where_these_went_silent() -> None:
    silent = 3 * 3600 + 1.0
    assert _capacity(silent=silent, computing_element=OWN) == 0
    assert _capacity(running=7, silent=silent, computing_element=OWN) == 7
    assert _capacity(running=7, workers=9, silent=silent, computing_element=OWN) == 9


@pytest.mark.parametrize("silent", [None, 0.0, 4 * 3600.0])
def test_b30_declared_num_slots_count_whatever_our_own_pilots_do(silent: float | None) -> None:
    assert _capacity(running=7, num_slots=2, silent=silent, computing_element=OWN) == 7
    assert _capacity(running=7, num_slots=300, silent=silent, computing_element=OWN) == 300
    assert _capacity(running=7, starting=9, num_slots=0, silent=silent, computing_element=OWN) == 9


def test_b30_jobs_that_leave_a_dead_queue_do_not_go_back() -> None:
    """A queue of 400 declared slots whose pilots went silent weighs least, and takes none of 348 jobs."""
    house = federation([queue("DEAD", max_pilots=400), queue("LIVE", max_pilots=200)])
    asked = task()
    state = world(
        house,
        asked,
        jobs=jobs(asked, 348),
        job_counts=(*jobs_at("DEAD", activated=20), *jobs_at("LIVE", running=50)),
        queue_reports=(
            queue_report("DEAD", last_pilot=NOW - 4 * 3600),
            queue_report("LIVE", last_pilot=NOW),
        ),
    )
    assert only_choice(state).placed == {"LIVE": 348}
    assert _factors(state, "DEAD")["B32"] == pytest.approx(1 / 30)


def test_b30_a_queue_of_four_slots_gets_more_jobs_than_one_of_one() -> None:
    house = federation([queue("ONE", max_pilots=1), queue("FOUR", max_pilots=2, slots=2)])
    asked = task()
    assert only_choice(world(house, asked, jobs=jobs(asked, 12))).placed == {"FOUR": 12}
    placed = only_choice(world(house, asked, jobs=jobs(asked, 22))).placed
    assert placed == {"FOUR": 20, "ONE": 2}, "so that both weigh about the same: 5/30 and 2/12"


@pytest.mark.parametrize(
    ("assigned", "activated", "many"), [(0, 0, 1), (1, 0, 2), (5, 10, 1), (15, 10, 1.5), (30, 10, 2)]
)
def test_b32_many_assigned_is_between_one_and_two(assigned: float, activated: float, many: float) -> None:
    found = initial_weight(np.array([4.0]), np.array([30.0]), np.array([assigned]), np.array([activated]))
    assert found.tolist() == [pytest.approx(5 / (40 * many))]


def _factors(of: World, name: str) -> dict[str, float]:
    candidates = only_choice(of).candidates
    place = candidates.queues.index(name)
    return {rule: values[place] for rule, values in candidates.factors.items()}


def _with_input(of: World, *, missing: int = 0, here: int = 1, size: int = 100) -> World:
    """Input of one job: so many files at NEAR's storage, so many elsewhere only."""
    names = tuple(f"in.{number}" for number in range(here + missing))
    return replace(
        of,
        jobs=jobs(of.tasks[0], inputs=names),
        files=tuple(File(name=name, size=size, checksum="") for name in names),
        replicas=tuple(
            Replica(file=name, storage="HOME-DISK" if place < here else "AWAY-DISK")
            for place, name in enumerate(names)
        ),
    )


def test_b32_all_that_waits_lowers_the_weight() -> None:
    job_counts = jobs_at("NEAR", activated=4, assigned=2, starting=3, running=11)
    state = _with_input(world(TWO_SITES, task(), job_counts=job_counts), here=0, missing=1)
    assert _factors(state, "NEAR")["B32"] == pytest.approx(12 / (4 + 2 + 3 + 10))


def test_b31_assigned_jobs_do_not_count_where_the_input_is() -> None:
    job_counts = jobs_at("NEAR", activated=4, assigned=12, starting=3, running=11)
    state = world(TWO_SITES, task(), job_counts=job_counts)
    assert _factors(_with_input(state), "NEAR")["B32"] == pytest.approx(12 / 17)
    assert _factors(state, "NEAR")["B32"] == pytest.approx(12 / 17)
    assert _factors(_with_input(state, here=0, missing=1), "NEAR")["B32"] == pytest.approx(12 / (29 * 2))


def test_b33_prefers_where_the_data_is() -> None:
    state = world(TWO_SITES, task())
    assert _factors(state, "NEAR")["B33"] == 1
    assert _factors(_with_input(state), "NEAR")["B33"] == 2
    assert _factors(_with_input(state, here=0, missing=1), "NEAR")["B33"] == pytest.approx(1 / 1.01)
    assert _factors(_with_input(state, here=1, missing=3), "NEAR")["B33"] == pytest.approx(1.25 / 1.03)


def _tasks_inputs(of_jobs: Sequence[Sequence[str]], near: Collection[str]) -> World:
    """One task whose jobs read these files of 100 bytes: all lie at AWAY, some at HOME as well."""
    asked = task()
    names = sorted(set(chain(*of_jobs)))
    reading = [jobs(asked, first=number, inputs=tuple(one))[0] for number, one in enumerate(of_jobs, 1)]
    return world(
        TWO_SITES,
        asked,
        jobs=reading,
        files=(File(name=name, size=100, checksum="") for name in names),
        replicas=(
            *(Replica(file=name, storage="AWAY-DISK") for name in names),
            *(Replica(file=name, storage="HOME-DISK") for name in near),
        ),
    )


def _data_factors(of: World, queue: str) -> list[float]:
    found = [choice.candidates for choice in decide(of).choices]
    return [one.factors["B33"][one.queues.index(queue)] for one in found]


def test_b33_counts_the_files_of_all_jobs_that_are_brokered_together() -> None:
    """Each job reads one file; NEAR has 50 of the task's 200, and the weight is the task's."""
    reading = [[f"in.{number}"] for number in range(200)]
    state = _tasks_inputs(reading, near=[f"in.{number}" for number in range(50)])
    assert _data_factors(state, "NEAR") == [pytest.approx((50 + 200) / (200 * (150 / 100 + 1)))] * 2
    assert _data_factors(state, "FAR") == [2, 2], "of jobs with their file there, and of those without"


def test_b33_counts_a_file_that_many_jobs_read_once() -> None:
    state = _tasks_inputs([["a", f"own.{number}"] for number in range(3)], near=["a"])
    assert _data_factors(state, "NEAR") == [pytest.approx((1 + 4) / (4 * (3 / 100 + 1)))]


def test_b33_counts_a_file_that_a_job_lists_twice_once() -> None:
    state = _tasks_inputs([["a", "a", "b"]], near=["a"])
    assert _data_factors(state, "NEAR") == [pytest.approx((1 + 2) / (2 * (1 / 100 + 1)))]


def test_b33_weighs_each_task_and_kind_by_its_own_files() -> None:
    first, second = task(1), task(2)
    asked = [
        *jobs(first, inputs=("a",)),
        *jobs(first, first=2, kind="scout", inputs=("b",)),
        *jobs(second, first=3, inputs=("c",)),
        *jobs(second, first=4),
    ]
    state = world(
        TWO_SITES,
        tasks=(first, second),
        jobs=asked,
        files=(File(name=name, size=1, checksum="") for name in "abc"),
        replicas=(
            Replica(file=name, storage=f"{site}-DISK") for name, site in zip("abc", SITES, strict=True)
        ),
    )
    found = {}
    for choice in decide(state).choices:
        factors = dict(zip(choice.candidates.queues, choice.candidates.factors["B33"], strict=True))
        found[choice.jobs] = factors.get("NEAR")
    lacking = pytest.approx(1 / 1.01)
    assert found == {(1,): 2, (2,): lacking, (3,): 2, (4,): 1}, "a job without input weighs no data"


def test_b33_files_without_bytes_count_by_number() -> None:
    state = world(TWO_SITES, task())
    assert _factors(_with_input(state, here=1, missing=3, size=0), "NEAR")["B33"] == pytest.approx(
        1.25 / 1.03
    )


def test_b33_tape_is_not_available() -> None:
    house = federation([queue("NEAR"), queue("FAR", site="AWAY")], storages={"HOME": {"tape": True}})
    state = _with_input(world(house, task()))
    assert _factors(state, "NEAR")["B33"] == pytest.approx(1 / 1.01)


def _network(files: int = 0, nucleus: str = "HOME", **link: Any) -> float:
    house = federation(
        [queue("NEAR"), queue("FAR", site="AWAY")],
        links=[Link(source="AWAY", destination="HOME", **link)] if link else [],
    )
    return _factors(world(house, task(nucleus=nucleus), link_counts=waiting_on_link(files)), "FAR")["B34"]


def test_b34_is_the_mean_of_queued_and_throughput_weight() -> None:
    assert _network(throughput_1h=60) == pytest.approx(0.5 * (2 + 1.6))
    assert _network(files=75, throughput_1h=60) == pytest.approx(0.5 * (1.5 + 1.6))


def test_b34_is_one_without_a_nucleus() -> None:
    assert _network(nucleus="", throughput_1h=60) == 1


def test_b35_the_nucleus_itself_weighs_two_and_a_half() -> None:
    assert _factors(world(TWO_SITES, task(nucleus="HOME")), "NEAR")["B34"] == 2.5


@pytest.mark.parametrize(
    ("measured", "weight"),
    [
        (201, 2),
        (200, 1.9),
        (100, 1.8),
        (75, 1.6),
        (50, 1.5),
        (20, 1.3),
        (10, 1.2),
        (2, 1.1),
        (1.1, 1.1),
        (1, 1),
        (0, 1),
    ],
)
def test_b34_throughput_weight_by_its_steps(measured: float, weight: float) -> None:
    assert throughput_weight(Link(source="A", destination="B", throughput_1h=measured)) == weight


def test_b35_each_window_stands_alone_and_the_latest_counts() -> None:
    def weight(**link: Any) -> float:
        return throughput_weight(Link(source="A", destination="B", **link))

    assert weight(throughput_1h=60, throughput_1d=3, throughput_1w=300) == 1.6
    assert weight(throughput_1d=3, throughput_1w=300) == 1.2
    assert weight(throughput_1w=300) == 2
    assert weight(throughput_1h=0, throughput_1w=300) == 1


def test_b35_without_measurements_closeness_counts_and_unknown_is_7_7() -> None:
    assert _network(closeness=0) == pytest.approx(0.5 * (2 + 2))
    assert _network(closeness=11) == pytest.approx(0.5 * (2 + 1))
    assert _network(closeness=3) == pytest.approx(0.5 * (2 + 1 + 8 / 11))
    assert _network(closeness=None) == pytest.approx(0.5 * (2 + 1.3))
    assert _network() == pytest.approx(0.5 * (2 + 1.3))


def test_the_weight_is_the_product_of_its_factors() -> None:
    state = _with_input(
        world(TWO_SITES, task(nucleus="HOME"), job_counts=jobs_at("NEAR", running=5, activated=3))
    )
    candidates = only_choice(state).candidates
    products = np.prod([candidates.factors[rule] for rule in ("B32", "B33", "B34")], axis=0)
    assert candidates.weights == pytest.approx(products.tolist())
