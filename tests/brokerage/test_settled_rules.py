"""Rules as they are settled where the published texts leave them open or their practice differs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pilotage.explain.analysis import explain
from pilotage.explain.rendering import lines
from pilotage.model.documents.decision import Choice, Label
from pilotage.model.documents.world import LinkCount, World
from pilotage.model.records.federation import Federation, Link, Storage
from pilotage.model.records.work import File, JobKind, MergeSpec, Replica
from pilotage.policies.brokerage.engine.verdicts import RefusalValues, Ruling, bits_of, mask_of
from pilotage.policies.brokerage.production import Production
from pilotage.testing import (
    federation,
    jobs,
    jobs_at,
    measured,
    queue,
    queue_report,
    task,
    waiting_on_link,
    world,
)
from pilotage.testing.choices import only_choice, refusal, refused, refused_in

TWO_SITES = federation([queue("NEAR"), queue("FAR", site="AWAY")])
MERGE = MergeSpec(command=("merge",), outputs=("all",))
BLOCKED = Link(source="AWAY", destination="HOME", closeness=-1)
REMOTE = [
    queue("NEAR"),
    queue("FAR", site="AWAY"),
    queue("FAR-AT-HOME", site="AWAY", storage="HOME-DISK"),
    queue("NEAR-BUT-AWAY", site="HOME", storage="AWAY-DISK"),
]


def test_b5_b6_b8_b34_the_link_is_that_of_the_queues_storage() -> None:
    house = federation(REMOTE, links=[BLOCKED])
    assert refused(house, "B5", nucleus="HOME") == {"FAR", "NEAR-BUT-AWAY"}
    open_house = federation(REMOTE)
    full = world(open_house, task(nucleus="HOME"), link_counts=waiting_on_link(151))
    assert refused_in(full, "B6") == {"FAR", "NEAR-BUT-AWAY"}
    assert refused(open_house, "B8", nucleus="HOME", priority=800) == {"FAR", "NEAR-BUT-AWAY"}
    found = only_choice(world(open_house, task(nucleus="HOME"))).candidates
    weights = dict(zip(found.queues, found.factors["B34"], strict=True))
    assert weights["FAR-AT-HOME"] == weights["NEAR"] == 2.5
    assert weights["NEAR-BUT-AWAY"] == weights["FAR"] == pytest.approx(0.5 * (2 + 1.3))


def test_b7_only_outputs_on_their_way_from_elsewhere_fill_a_nucleus() -> None:
    house = federation([queue("NEAR"), queue("FAR", site="AWAY")])

    def full(*counts: LinkCount) -> set[str]:
        return refused_in(world(house, task(nucleus="HOME"), link_counts=counts), "B7")

    link = LinkCount(source="AWAY-DISK", destination="HOME-DISK", files=20_000)
    assert full(replace(link, uploads=10_000)) == set()
    assert full(replace(link, uploads=10_001)) == {"FAR"}
    assert full(replace(link, source="HOME-DISK", uploads=20_000)) == set()


def _nucleus(*, first: dict[str, Any], prefer: bool = False, **spec: Any) -> Choice:
    constants = {"high_priority": "prefer"} if prefer else {}
    house = federation(
        [
            queue("NEAR", **first),
            queue("FAR", site="AWAY"),
            queue("CHANCE", site="AWAY", pledged_cpu=-1),
        ],
        constants=constants,
    )
    asked = task(nucleus="HOME", walltime=60, **spec)
    return only_choice(world(house, asked))


def test_b8_high_priority_prefer_refuses_opportunistic_queues_and_weighs_the_nucleus_four_times() -> None:
    choice = _nucleus(first={}, prefer=True, priority=800)
    assert set(choice.candidates.queues) == {"NEAR", "FAR"}
    assert refusal(choice, "B8").queues == ("CHANCE",)
    assert dict(zip(choice.candidates.queues, choice.candidates.factors["B8"], strict=True)) == {
        "NEAR": 4.0,
        "FAR": 1.0,
    }
    assert "B8" not in _nucleus(first={}, prefer=True, priority=799).candidates.factors


def test_b8_prefer_weighs_the_nucleus_a_hundred_times_for_scouts() -> None:
    house = federation([queue("NEAR"), queue("FAR", site="AWAY")], constants={"high_priority": "prefer"})
    asked = task(nucleus="HOME", walltime=60)
    choice = only_choice(world(house, asked, jobs=jobs(asked, kind="scout")))
    assert choice.candidates.queues == ("NEAR", "FAR")
    assert choice.candidates.factors["B8"] == (100.0, 1.0)


def test_b8_yields_where_no_queue_of_the_nucleus_could_ever_take_the_job_and_says_so() -> None:
    choice = _nucleus(first={"max_memory": 1000}, priority=800, ram=2000)
    assert choice.candidates.queues == ("FAR",)
    (waived,) = choice.waived
    assert (waived.rule, waived.queues) == ("B8", ("FAR",))
    assert waived.lifted_by == "no queue of the nucleus could ever take the jobs"
    assert lines(explain(choice))[-1].endswith(
        "1 queue, but no queue of the nucleus could ever take the jobs"
    )


def test_b8_holds_while_waiting_could_open_the_nucleus() -> None:
    asked = task(nucleus="HOME", priority=800, walltime=60)
    choice = only_choice(world(TWO_SITES, asked, storage_spaces=measured(TWO_SITES, HOME=1)))
    assert (choice.candidates.queues, choice.waived) == ((), ())
    declared = federation([queue("NEAR"), queue("FAR", site="AWAY")], storages={"HOME": {"free": 1}})
    offline = federation([queue("NEAR", status="offline"), queue("FAR", site="AWAY")])
    for house in (declared, offline):
        choice = only_choice(world(house, asked))
        assert (choice.candidates.queues, choice.waived) == ((), ()), "an operator can lift that"


def _reading(house: Federation, count: int, sizes: dict[str, int], **spec: Any) -> World:
    """Jobs of one task, each with a file of its own at AWAY."""
    asked = task(io_intensity=500, **spec)
    made = [
        replace(job, inputs=(name,))
        for job, name in zip(jobs(asked, count), (f"f{number}" for number in range(count)), strict=True)
    ]
    return world(
        house,
        asked,
        jobs=tuple(made),
        files=tuple(File(name=f"f{number}", size=sizes["each"], checksum="") for number in range(count)),
        replicas=tuple(Replica(file=f"f{number}", storage="AWAY-DISK") for number in range(count)),
    )


def test_b11_counts_the_input_of_all_jobs_that_are_brokered_together() -> None:
    gigabyte = 10**9
    assert refused_in(_reading(TWO_SITES, 9, {"each": gigabyte}), "B11") == set()
    assert refused_in(_reading(TWO_SITES, 10, {"each": gigabyte}), "B11") == {"NEAR"}
    assert refused_in(_reading(TWO_SITES, 99, {"each": 1}), "B11") == set()
    assert refused_in(_reading(TWO_SITES, 100, {"each": 1}), "B11") == {"NEAR"}


def test_b11_a_file_that_many_jobs_read_is_moved_once() -> None:
    state = _reading(TWO_SITES, 10, {"each": 10**9})
    shared = tuple(replace(job, inputs=("f0",)) for job in state.jobs)
    assert refused_in(replace(state, jobs=shared), "B11") == set()


def test_b11_is_waived_where_it_would_leave_no_queue_and_says_so() -> None:
    house = federation([queue("NEAR"), queue("FAR", site="AWAY", status="offline")])
    choice = only_choice(_reading(house, 20, {"each": 10**9}))
    assert choice.candidates.queues == ("NEAR",)
    assert {(item.rule, item.queues, item.lifted_by) for item in choice.waived} == {
        ("B11", ("NEAR",), "no queue would be left")
    }
    assert any(
        "input to move (B11) would have refused 1 queue" in line
        for line in lines(explain(choice), rules=True)
    )


def _bounded(
    rate: float | None = None, count: int = 20, input_moves: str = "sooner", **at_far: int
) -> Choice:
    """Jobs of ten hours with a GB each at FAR, which has ten slots, over a link of ``rate`` MB/s to NEAR."""
    link = [Link(source="AWAY", destination="HOME", throughput_1h=rate)]
    house = federation(
        [queue("NEAR"), queue("FAR", site="AWAY")], links=link, constants={"input_moves": input_moves}
    )
    state = _reading(house, count, {"each": 10**9}, walltime=36_000)
    return only_choice(replace(state, job_counts=jobs_at("FAR", **at_far)))


def test_b11_is_waived_where_the_queues_that_hold_the_input_are_full() -> None:
    choice = _bounded(activated=20)
    assert {(item.rule, item.queues, item.lifted_by) for item in choice.waived} == {
        ("B11", ("NEAR",), "the queues that hold the input are full")
    }
    assert refusal(_bounded(activated=20, input_moves="bounded"), "B11").queues == ("NEAR",)


@pytest.mark.parametrize(
    ("rate", "count", "running", "moves"),
    [
        (10, 20, 10, True),  # 20 GB take 2000 s, the last of 20 jobs starts after 20 h
        (0.25, 20, 10, False),  # 80,000 s are more than 20 h
        (0.3, 20, 10, True),
        (10, 10, 0, False),  # ten slots are free for ten jobs
        (None, 20, 10, False),  # nobody knows how long it takes
        (0, 20, 10, False),
    ],
)
def test_b11_is_waived_where_the_input_moves_sooner_than_jobs_start_where_it_lies(
    rate: float | None, count: int, running: int, moves: bool
) -> None:
    choice = _bounded(rate, count, running=running)
    waived = [(item.rule, item.queues, item.lifted_by) for item in choice.waived]
    sooner = [("B11", ("NEAR",), "the input can move before the last job would start at its place")]
    assert waived == (sooner if moves else [])
    assert ("NEAR" in choice.candidates.queues) is moves


def test_b11_is_waived_for_near_queues_alone_and_tells_what_each_lacks() -> None:
    links = [
        Link(source="AWAY", destination="HOME", throughput_1h=10),
        Link(source="AWAY", destination="THIRD", throughput_1h=0.1),
    ]
    names = [queue("NEAR"), queue("FAR", site="AWAY"), queue("SLOW", site="THIRD")]
    house = federation(names, links=links, constants={"input_moves": "sooner"})
    state = _reading(house, 20, {"each": 10**9}, walltime=36_000)
    choice = only_choice(replace(state, job_counts=jobs_at("FAR", running=10)))
    kept, (waived,) = refusal(choice, "B11"), choice.waived
    assert (kept.queues, waived.queues) == (("SLOW",), ("NEAR",))
    assert (kept.have, waived.have) == ((20.0,), (20.0,))


def test_b11_merge_jobs_are_exempt() -> None:
    state = _reading(TWO_SITES, 20, {"each": 10**9}, merge=MERGE)
    merging = tuple(replace(job, kind="merge") for job in state.jobs)
    assert refused_in(replace(state, jobs=merging), "B11") == set()


def test_b12_compares_the_disk_io_of_one_core() -> None:
    house = federation([queue(cores=8, max_disk_io=100)])
    reports = (queue_report("Q", disk_io=101),)

    def at(**spec: Any) -> set[str]:
        return refused_in(world(house, task(**spec), queue_reports=reports), "B12")

    assert at(cores=8, disk_io=800) == set()
    assert at(cores=8, disk_io=801) == {"Q"}
    assert at(cores=0, disk_io=800) == set()


def test_b12_a_queue_that_reports_nothing_refuses_nothing() -> None:
    house = federation([queue(max_disk_io=100)])
    assert refused_in(world(house, task(disk_io=500), queue_reports=(queue_report("Q"),)), "B12") == set()


def test_b15_memory_is_for_the_cores_that_the_job_uses_at_the_queue() -> None:
    house = federation(
        [queue("ONE", max_memory=2000), queue("EIGHT", cores=8, max_memory=8000), queue("ANY", cores=0)]
    )
    assert refused(house, "B15", cores=0, ram=1000) == set()
    assert refused(house, "B15", cores=0, ram=2000) == {"EIGHT"}
    assert refused(house, "B15", cores=0, ram=1000, base_ram=900) == {"EIGHT"}


def test_b15_memory_in_mb_is_neither_scaled_by_cores_nor_has_a_base() -> None:
    house = federation([queue("EIGHT", cores=8, max_memory=9000)])
    assert refused(house, "B15", cores=8, ram=10_000, ram_unit="MB", base_ram=5000) == set()
    assert refused(house, "B15", cores=8, ram=10_001, ram_unit="MB") == {"EIGHT"}


def test_b15_work_that_asks_for_no_memory_passes_a_minimum() -> None:
    house = federation([queue("HIGH", min_memory=4000)])
    assert refused(house, "B15") == set()
    assert refused(house, "B15", ram=1000) == {"HIGH"}


@pytest.mark.parametrize(
    ("disk", "other", "closed"),
    [((), (), False), (("write_wan",), (), True), ((), ("write_wan",), False)],
)
def test_b19_at_the_nucleus_the_storage_counts_where_outputs_really_go(
    disk: tuple[str, ...], other: tuple[str, ...], closed: bool
) -> None:
    """Not scratch space or tape that stand beside it."""
    house = federation([queue("NEAR"), queue("FAR", site="AWAY")], storages={"HOME": {"blacklisted": disk}})
    beside = (
        Storage(name="A", site="HOME", url="file:///scratch", scratch=True, blacklisted=other),  # type: ignore[arg-type]
        Storage(name="A-TAPE", site="HOME", url="file:///tape", tape=True),
    )
    house = replace(house, storages=(*beside, *house.storages))
    assert refused(house, "B19", nucleus="HOME", outputs=("out",)) == ({"FAR"} if closed else set())


def test_b21_the_cores_are_those_that_the_job_uses_at_the_queue() -> None:
    house = federation(
        [
            queue("ONE", core_power=10, max_walltime=100),
            queue("EIGHT", cores=8, core_power=10, max_walltime=100),
        ]
    )
    assert refused(house, "B21", cores=0, cpu_time=7999, cpu_efficiency=1.0) == {"ONE"}
    assert refused(house, "B21", cores=0, cpu_time=8000, cpu_efficiency=1.0) == {"ONE", "EIGHT"}


def test_b21_an_unknown_core_power_counts_as_10_and_is_shown_as_unknown() -> None:
    house = federation([queue("DARK", max_walltime=100), queue("KNOWN", core_power=10, max_walltime=100)])
    choice = only_choice(world(house, task(cpu_time=1000, cpu_efficiency=1.0)))
    assert {item.name: item.queues for item in choice.refusals if item.rule == "B21"} == {
        "walltime": ("KNOWN",),
        "walltime, core power unknown": ("DARK",),
    }
    assert refused(house, "B21", cpu_time=999, cpu_efficiency=1.0) == set()


def test_b24_a_declared_limit_of_0_is_0() -> None:
    house = federation([queue("NONE", transferring_limit=0), queue("UNDEFINED")])
    counts = jobs_at("NONE", transferring=1) + jobs_at("UNDEFINED", transferring=2000)
    assert refused_in(world(house, task(), job_counts=counts), "B24") == {"NONE"}


@pytest.mark.parametrize(("possible", "refusing"), [(None, set()), (True, set()), (False, {"Q"})])
def test_b26_a_queue_of_our_own_passes_while_pilots_can_be_started(
    possible: bool | None, refusing: set[str]
) -> None:
    problem = "" if possible in (None, True) else "no adapter for kind slurm is installed"
    reports = (queue_report("Q", pilots_possible=possible, pilots_problem=problem),)
    choice = only_choice(world(federation([queue()]), task(), queue_reports=reports))
    found = {name for item in choice.refusals if item.rule == "B26" for name in item.queues}
    assert found == refusing
    if refusing:
        assert refusal(choice, "B26").have == (problem,)


@pytest.mark.parametrize("kind", ["normal", "scout"])
def test_b34_can_be_switched_off_by_itself(kind: JobKind) -> None:
    asked = task(nucleus="HOME", walltime=60)
    state = world(TWO_SITES, asked, jobs=jobs(asked, kind=kind))
    (choice,) = Production({"off": ["B34"]}).decide(state).choices
    assert "B34" not in choice.candidates.factors
    weights = dict(zip(choice.candidates.queues, choice.candidates.weights, strict=True))
    assert set(weights.values()) == {1.1}, "of 10 slots of our own (B30)"


def test_b11_what_is_told_of_single_pairs_is_kept_for_those_that_remain() -> None:
    label = Label(rule="B11", name="n", mend="wait", unit="GB", lifted_by="l")
    bits = bits_of(np.array([[True, True, False], [False, True, True], [False] * 3]))
    have = RefusalValues("pair", np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 2, 4]))
    ruling = Ruling(
        label=label, number=0, bits=bits, rows=np.array([0, 1]), need=RefusalValues("one", 9), have=have
    )
    second = ruling.only(np.array([1]), bits_of(np.array([[True, False, True]])))
    assert second.refusing.tolist() == [False, True]
    told = second.refusal(1)
    assert (mask_of(np.frombuffer(told.queues, dtype=np.uint8), 3).tolist(), told.need) == (
        [False, False, True],
        9,
    )
    assert list(told.have) == [4.0]  # type: ignore[arg-type]
