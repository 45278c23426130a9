"""Bounds: work as a fluid, fair parts of it, and the power of a federation."""

import pytest

from pilotage.model.records.federation import ComputingElement, GlobalShare, Queue, QueueStatus
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.simulation.bounds import (
    Ideal,
    earliest,
    fair_parts,
    fair_work,
    fluid,
    ideal,
    power,
    share_error,
    shortest,
)
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.reading import usable_queues
from pilotage.simulation.scenario import Scenario, SiteBehaviour
from pilotage.testing.worlds import federation

SHARES = (GlobalShare(name="a", target=3), GlobalShare(name="b", target=1))


def test_work_is_done_at_the_rate_of_all_cores_once_it_has_arrived() -> None:
    arrivals = [(0, "a", 100), (20, "a", 100)]
    assert fluid(SHARES, arrivals, rate=10, until=15) == {"a": 100}
    assert fluid(SHARES, arrivals, rate=10, until=25) == {"a": 150}


def test_work_that_arrives_later_counts_nothing() -> None:
    assert sum(fluid(SHARES, [(50, "a", 100)], rate=10, until=40).values()) == 0


def test_work_that_waits_is_divided_by_targets() -> None:
    assert fluid(SHARES, [(0, "a", 1000), (0, "b", 1000)], rate=10, until=40) == {"a": 300, "b": 100}


def test_a_share_is_due_nothing_before_its_work_arrives() -> None:
    arrivals = [(0, "b", 1000), (50, "a", 1000)]
    fair = fair_work(SHARES, arrivals, total=1000, until=100)
    assert fair == pytest.approx({"b": 500 + 125, "a": 375})


def test_one_share_has_no_error() -> None:
    arrivals = [(at, "a", 1000.0) for at in range(0, 30_000, 700)]
    assert share_error(SHARES, arrivals, {"a": 12_345.6}, 30_000) == 0


def test_work_that_went_to_another_share_than_was_due_is_an_error() -> None:
    arrivals = [(0, "a", 1000), (0, "b", 1000)]
    assert share_error(SHARES, arrivals, {"a": 50, "b": 50}, 100) == pytest.approx(0.25)


def test_fair_parts_go_by_targets() -> None:
    assert fair_parts(SHARES, {"a": 1000, "b": 1000}, 100) == {"a": 75, "b": 25}


def test_nobody_is_due_more_than_was_asked_for() -> None:
    assert fair_parts(SHARES, {"a": 10, "b": 1000}, 100) == {"a": 10, "b": 90}


def test_shares_without_target_get_what_is_left() -> None:
    assert fair_parts(SHARES, {"a": 10, "x": 100, "y": 100}, 100) == {"a": 10, "x": 45, "y": 45}


def test_power_is_that_of_the_strongest_slots_which_the_site_has() -> None:
    def queue(name: str, pilots: int, strength: float) -> Queue:
        element = ComputingElement(max_pilots=pilots)
        return Queue(name=name, site="lab", storage="disk", core_power=strength, computing_element=element)

    declared = federation(queues=(queue("old", 10, 5), queue("new", 4, 20)))
    scenario = Scenario(name="s", federation="", default_site=SiteBehaviour(slots=6))
    assert power(declared, scenario, widest=8) == pytest.approx(4 * 20 + 2 * 5)


def test_a_slot_of_a_queue_that_takes_any_cores_may_have_those_of_the_widest_job() -> None:
    element = ComputingElement(max_pilots=2, pilot_slots=3)
    queue = Queue(name="q", site="lab", storage="disk", core_power=10, cores=0, computing_element=element)
    scenario = Scenario(name="s", federation="")
    assert power(federation(queues=(queue,)), scenario, widest=4) == pytest.approx(2 * 3 * 4 * 10)


def test_queues_count_that_are_open_to_the_work_or_named_by_it_and_serve_its_vos() -> None:
    def queue(name: str, status: QueueStatus = "online", *vos: str) -> Queue:
        return Queue(name=name, site="lab", storage="disk", status=status, vos=vos)

    def names(*queues: str) -> list[str]:
        spec = TaskSpec(name="t", queues=queues)
        task = SimulatedTask(spec=spec, owner=Identity(name="alice", vo="sim"), work=(1,))
        return [one.name for one in usable_queues(declared, [task]).queues]

    declared = federation(
        queues=(
            queue("all"),
            queue("ours", "standby", "other", "sim"),
            queue("nobody's", "online", "nobody"),
            queue("off", "offline"),
        )
    )
    assert names() == ["all", "ours"]
    assert names("off", "nobody's") == ["all", "ours", "off"]


def best(at: float, *works: float, cores: int = 1) -> Ideal:
    """A task on cores of 10 HS23."""
    queue = Queue(name="q", site="lab", storage="disk", core_power=10)
    return ideal(federation(queues=(queue,)), at, works, cores)


def test_jobs_end_no_earlier_than_all_cores_can_do_the_least_of_them() -> None:
    tasks = [best(0, 100, 100, 100, 1000)]
    assert earliest(tasks, rate=20, jobs=3) == 15
    assert earliest(tasks, rate=1000, jobs=3) == 10, "a job takes 10 s on one core"
    assert earliest(tasks, rate=1000, jobs=4) == 100


def test_jobs_end_no_earlier_than_they_come() -> None:
    tasks = [best(0, 100), best(50, 100)]
    assert earliest(tasks, rate=10, jobs=2) == 60
    assert earliest(tasks, rate=1, jobs=2) == 200
    assert earliest(tasks, rate=10, jobs=1) == 10
    assert earliest([best(0, 50, 50, 50), best(50, 10)], rate=4, jobs=2) == 15


def test_tasks_take_no_less_than_their_longest_job_and_all_cores() -> None:
    assert shortest([best(0, 100, 100), best(9, 400, cores=4)], rate=40) == 10
    assert shortest([best(0, 100, 100, 100)], rate=10) == 30
    assert shortest([], rate=10) == 0
