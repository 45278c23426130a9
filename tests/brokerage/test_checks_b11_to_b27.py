"""B11 to B27 of the production brokerage at their boundaries, by the rule's number."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation
from pilotage.model.records.storage_spaces import StorageSpace
from pilotage.model.records.work import File, JobKind, MergeSpec, Replica
from pilotage.testing import (
    HOUR,
    NOW,
    federation,
    federation_linked_by,
    jobs,
    jobs_at,
    queue,
    queue_report,
    task,
    world,
)
from pilotage.testing.choices import only_choice, refusal, refused, refused_in

MERGE = MergeSpec(command=("merge",), outputs=("all",))
TWO_SITES = federation([queue("NEAR"), queue("FAR", site="AWAY")])


def _moving(size: int, files: int = 1, *, at: str = "AWAY", io_intensity: float = 201) -> World:
    names = tuple(f"in.{number}" for number in range(files))
    asked = task(io_intensity=io_intensity)
    return world(
        TWO_SITES,
        asked,
        jobs=jobs(asked, inputs=names),
        files=tuple(File(name=name, size=size, checksum="") for name in names),
        replicas=tuple(Replica(file=name, storage=f"{at}-DISK") for name in names),
    )


def test_b11_intensive_work_moves_less_than_the_size_cutoff() -> None:
    assert refused_in(_moving(10_000_000_000 - 1), "B11") == set()
    assert refused_in(_moving(10_000_000_000), "B11") == {"NEAR"}
    assert refused_in(_moving(10_000_000_000, at="HOME"), "B11") == {"FAR"}
    assert refused_in(_moving(10_000_000_000, io_intensity=200), "B11") == set()


def test_b11_intensive_work_moves_fewer_files_than_the_cutoff() -> None:
    assert refused_in(_moving(1, files=99), "B11") == set()
    assert refused_in(_moving(1, files=100), "B11") == {"NEAR"}


def test_b12_a_queue_above_its_disk_io_limit_refuses_work_above_it() -> None:
    house = federation(
        [queue("OWN", max_disk_io=100), queue("DEFAULT")], constants={"max_diskio_default": 50}
    )
    reports = (queue_report("OWN", disk_io=101), queue_report("DEFAULT", disk_io=51))
    assert refused_in(world(house, task(disk_io=101), queue_reports=reports), "B12") == {"OWN", "DEFAULT"}
    assert refused_in(world(house, task(disk_io=100), queue_reports=reports), "B12") == {"DEFAULT"}
    assert refused_in(world(house, task(disk_io=50), queue_reports=reports), "B12") == set()
    calm = (queue_report("OWN", disk_io=100), queue_report("DEFAULT", disk_io=50))
    assert refused_in(world(house, task(disk_io=500), queue_reports=calm), "B12") == set()


def test_b12_without_a_limit_or_a_report_nothing_is_refused() -> None:
    assert refused_in(world(TWO_SITES, task(disk_io=1e9)), "B12") == set()


@pytest.mark.parametrize(
    ("asked", "offered", "fits"),
    [(1, 1, True), (1, 8, False), (1, 0, True), (8, 8, True), (8, 7, False), (8, 16, True), (8, 1, False)],
)
def test_b13_cores_match(asked: int, offered: int, fits: bool) -> None:
    assert refused(federation([queue(cores=offered)]), "B13", cores=asked) == (set() if fits else {"Q"})


@pytest.mark.parametrize("offered", [0, 1, 8])
def test_b13_work_of_any_cores_runs_anywhere(offered: int) -> None:
    assert refused(federation([queue(cores=offered)]), "B13", cores=0) == set()


def test_b13_max_cores_bounds_the_queue() -> None:
    house = federation([queue("EIGHT", cores=8), queue("SIXTEEN", cores=16)])
    assert refused(house, "B13", cores=8, max_cores=8) == {"SIXTEEN"}
    assert refused(house, "B13", cores=8, max_cores=15) == {"SIXTEEN"}
    assert refused(house, "B13", cores=8, max_cores=16) == set()


def test_b14_slots_have_the_gpus_that_a_job_asks_for() -> None:
    house = federation([queue("NONE"), queue("TWO", gpus=2)])
    assert refused(house, "B14", gpus=0) == set()
    assert refused(house, "B14", gpus=2) == {"NONE"}
    assert refused(house, "B14", gpus=3) == {"NONE", "TWO"}


def test_b15_the_expected_memory_is_within_the_limits() -> None:
    house = federation([queue(min_memory=900, max_memory=1800)])
    assert refused(house, "B15", ram=2000) == set()
    assert refused(house, "B15", ram=2001) == {"Q"}
    assert refused(house, "B15", ram=1000) == set()
    assert refused(house, "B15", ram=999) == {"Q"}


def test_b15_ram_is_per_core_with_a_base_unless_given_in_all() -> None:
    house = federation([queue(cores=8, max_memory=9000)])
    assert refused(house, "B15", cores=8, ram=1000, base_ram=2000) == set()
    assert refused(house, "B15", cores=8, ram=1000, base_ram=2001) == {"Q"}
    assert refused(house, "B15", cores=8, ram=8000, base_ram=2000, ram_unit="MB") == set()


def test_b15_no_limit_is_no_limit() -> None:
    assert refused(federation([queue(max_memory=0)]), "B15", ram=1e9) == set()


def test_b15_says_what_was_needed_and_what_was_there() -> None:
    choice = only_choice(world(federation([queue(max_memory=1800)]), task(ram=4000)))
    found = refusal(choice, "B15")
    assert (found.need, found.have, found.unit, found.mend) == (3600.0, (1800.0,), "MB", "user")


def test_b16_a_task_that_only_reads_directly() -> None:
    house = federation([queue("DIRECT", direct_access=True), queue("COPY")])
    assert refused(house, "B16", direct_access_only=True) == {"COPY"}
    assert refused(house, "B16") == set()


def test_b17_output_is_at_least_half_a_gigabyte() -> None:
    house = federation([queue(max_workdir=1000)])
    assert refused(house, "B17", work_disk=499) == set()
    assert refused(house, "B17", work_disk=500) == {"Q"}
    assert refused(house, "B17", work_disk=99, out_disk=9, events_per_job=100) == set()
    assert refused(house, "B17", work_disk=100, out_disk=9, events_per_job=100) == {"Q"}


def test_b17_the_work_directory_is_shared_by_the_cores_and_none_is_no_limit() -> None:
    house = federation([queue("EIGHT", cores=8, max_workdir=8000), queue("ANY", cores=0, max_workdir=0)])
    assert refused(house, "B17", cores=8, work_disk=7499) == set()
    assert refused(house, "B17", cores=8, work_disk=7500) == {"EIGHT"}
    assert refused(house, "B17", cores=2, work_disk=1499) == set()
    assert refused(house, "B17", cores=2, work_disk=1500) == {"EIGHT"}
    assert refused(house, "B17", cores=0, work_disk=7499) == set()


def test_b17_a_pseudo_queue_has_its_cores_part_of_its_unified_queues_directory() -> None:
    house = federation(
        [
            queue("ALL", cores=8, max_workdir=8000),
            queue("ALL-SCORE", cores=1, parent="ALL", max_workdir=8000),
            queue("ALL-MCORE", cores=8, parent="ALL", max_workdir=8000),
        ]
    )
    assert "ALL-SCORE" not in refused(house, "B17", work_disk=499)
    assert "ALL-SCORE" in refused(house, "B17", work_disk=500)
    assert "ALL-MCORE" not in refused(house, "B17", cores=8, work_disk=7499)


def test_b17_a_merge_job_leaves_behind_what_it_reads() -> None:
    house = federation([queue(max_workdir=5000, direct_access=True)])
    asked = task(merge=MERGE, out_disk=9000)
    state = world(
        house,
        asked,
        jobs=jobs(asked, kind="merge", inputs=("in",)),
        files=(File(name="in", size=4999 * 10**6, checksum=""),),
        replicas=(Replica(file="in", storage="HOME-DISK"),),
    )
    assert refused_in(state, "B17") == set()
    larger = replace(state, files=(File(name="in", size=5000 * 10**6, checksum=""),))
    assert refused_in(larger, "B17") == {"Q"}


def test_b17_input_counts_where_it_is_copied() -> None:
    house = federation(
        [queue("COPY", max_workdir=1000), queue("DIRECT", max_workdir=1000, direct_access=True)]
    )
    asked = task()
    state = world(
        house,
        asked,
        jobs=jobs(asked, inputs=("in",)),
        files=(File(name="in", size=500_000_000, checksum=""),),
        replicas=(Replica(file="in", storage="HOME-DISK"),),
    )
    assert refused_in(state, "B17") == {"COPY"}
    smaller = replace(state, files=(File(name="in", size=499_000_000, checksum=""),))
    assert refused_in(smaller, "B17") == set()
    copying = task(copy_inputs=True)
    always = replace(state, tasks=(copying,), jobs=jobs(copying, inputs=("in",)))
    assert refused_in(always, "B17") == {"COPY", "DIRECT"}, "the task allows no reading from the storage"


def test_b18_more_than_the_least_free_space_is_there() -> None:
    house = federation(
        [queue("NEAR"), queue("FAR", site="AWAY")], storages={"HOME": {"free": 200.1}, "AWAY": {"free": 200}}
    )
    assert refused(house, "B18") == {"FAR"}


def _spaces(house: Federation, *told: tuple[str, float, float | None, float]) -> World:
    """A task in a federation whose storages told GB free, and in all, some seconds ago."""
    urls = {storage.name: storage.url for storage in house.storages}
    spaces = tuple(
        StorageSpace(storage=name, url=urls[name], asked=NOW, told=NOW - age, free=free, total=total)
        for name, free, total, age in told
    )
    return world(house, task(), storage_spaces=spaces)


def test_b18_what_a_storage_tells_counts_and_not_what_the_file_says() -> None:
    house = federation(
        [queue("NEAR"), queue("FAR", site="AWAY")], storages={"HOME": {"free": 40}, "AWAY": {"free": 9000}}
    )
    measured = _spaces(house, ("HOME-DISK", 5000, None, 60), ("AWAY-DISK", 199, None, 60))
    (refusal,) = only_choice(measured).refusals
    assert (refusal.rule, refusal.queues, refusal.have, refusal.mend) == ("B18", ("FAR",), (199.0,), "wait")
    assert "as measured 20" in refusal.lifted_by, "it says when"
    (old,) = only_choice(_spaces(house, ("HOME-DISK", 5000, None, 1801))).refusals
    assert (old.queues, old.have, old.mend) == (("NEAR",), (40.0,), "operator"), "an old answer is none"
    assert "the federation's file declares more" in old.lifted_by, "waiting does not help"
    moved = replace(house, storages=tuple(replace(one, url="file:///new") for one in house.storages))
    elsewhere = replace(measured, federation=moved)
    assert refused_in(elsewhere, "B18") == {"NEAR"}, "what another place told is no answer"


def test_b18_unknown_space_is_enough() -> None:
    assert refused(federation([queue("NEAR")]), "B18") == set()


@pytest.mark.parametrize(
    ("everywhere", "there", "free", "takes"),
    [
        (None, None, 200, False),
        (None, None, 201, True),
        (100, None, 78, False),
        (0, None, 1, True),
        (None, 7.5, 75, True),
        (None, 7.5, 7.5, False),
        (0, 200, 78, False),
    ],
)
def test_b18_a_storage_says_how_much_it_needs_before_the_brokerage_does(
    everywhere: float | None, there: float | None, free: float, takes: bool
) -> None:
    """Measured or declared, both alike."""
    house = federation(
        [queue("NEAR")],
        storages={"HOME": {"storage_min_free": there, "free": free}},
        constants={"storage_min_free": everywhere},
    )
    expected = set() if takes else {"NEAR"}
    assert refused(house, "B18") == expected
    assert refused_in(_spaces(house, ("HOME-DISK", free, 252, 1)), "B18") == expected


def _blacklisted(site: str, operation: str, *, replica: str = "", **spec: Any) -> set[str]:
    house = federation(
        [queue("NEAR"), queue("FAR", site="AWAY")], storages={site: {"blacklisted": (operation,)}}
    )
    asked = task(**spec)
    state = world(house, asked)
    if replica:
        state = replace(
            state,
            jobs=jobs(asked, inputs=("in",)),
            files=(File(name="in", size=1, checksum=""),),
            replicas=(Replica(file="in", storage=f"{replica}-DISK"),),
        )
    return refused_in(state, "B19")


def test_b19_reading_over_the_local_network() -> None:
    assert _blacklisted("AWAY", "read_lan") == set()
    assert _blacklisted("AWAY", "read_lan", replica="HOME") == {"FAR"}


def test_b19_writing_over_the_local_network() -> None:
    assert _blacklisted("AWAY", "write_lan") == set()
    assert _blacklisted("AWAY", "write_lan", outputs=("out",)) == {"FAR"}


def test_b19_writing_missing_input_from_afar() -> None:
    assert _blacklisted("AWAY", "write_wan", replica="AWAY") == set()
    assert _blacklisted("AWAY", "write_wan", replica="HOME") == {"FAR"}


def test_b19_reading_from_afar_what_goes_to_the_nucleus() -> None:
    assert _blacklisted("AWAY", "read_wan", nucleus="HOME") == set()
    assert _blacklisted("AWAY", "read_wan", nucleus="HOME", outputs=("out",)) == {"FAR"}
    assert _blacklisted("HOME", "read_wan", nucleus="HOME", outputs=("out",)) == set()


def test_b19_writing_to_the_nucleus_from_afar() -> None:
    assert _blacklisted("HOME", "write_wan", nucleus="HOME", outputs=("out",)) == {"FAR"}


def test_b19_reading_input_at_its_source() -> None:
    assert _blacklisted("HOME", "read_wan", replica="HOME") == {"FAR"}
    assert _blacklisted("AWAY", "read_wan", replica="HOME") == set()


def test_b19_input_that_lies_nowhere_refuses_every_queue() -> None:
    asked = task()
    state = world(
        TWO_SITES, asked, jobs=jobs(asked, inputs=("in",)), files=(File(name="in", size=1, checksum=""),)
    )
    assert refused_in(state, "B19") == {"NEAR", "FAR"}


@pytest.mark.parametrize("kind", ["scout", "merge"])
def test_b20_scouts_and_merge_jobs_need_a_day(kind: JobKind) -> None:
    house = federation(
        [queue("SHORT", max_walltime=86_399), queue("DAY", max_walltime=86_400), queue("ANY", max_walltime=0)]
    )
    merge = MergeSpec(command=("merge",), outputs=("all",), walltime=60)
    assert refused(house, "B20", kind=kind, walltime=60, merge=merge) == {"SHORT"}
    assert refused(house, "B20", walltime=60) == set()
    assert refused(house, "B20", cpu_time=60) == set()


def test_b20_so_does_work_of_unknown_walltime() -> None:
    house = federation([queue("SHORT", max_walltime=86_399), queue("DAY", max_walltime=86_400)])
    assert refused(house, "B20") == {"SHORT"}


def test_b21_the_expected_walltime_is_within_the_limits() -> None:
    house = federation([queue(cores=8, core_power=10, min_walltime=1100, max_walltime=1101)])
    spec: dict[str, Any] = {"cores": 8, "events_per_job": 80, "cpu_efficiency": 0.5, "base_time": 100}
    assert refused(house, "B21", cpu_time=500, **spec) == set()
    assert refused(house, "B21", cpu_time=500.5, **spec) == {"Q"}, "1101 s are not less than 1101 s"
    assert refused(house, "B21", cpu_time=499.9, **spec) == {"Q"}


def test_b21_without_cpu_time_the_walltime_is_used_as_given() -> None:
    house = federation([queue("SHORT", max_walltime=100), queue("LONG", min_walltime=101), queue("ANY")])
    assert refused(house, "B21", walltime=99) == {"LONG"}
    assert refused(house, "B21", walltime=100) == {"SHORT", "LONG"}
    assert refused(house, "B21", walltime=101) == {"SHORT"}
    assert refused(house, "B21") == set()


def test_b21_a_merge_job_has_its_own_walltime() -> None:
    house = federation([queue(max_walltime=86_400)])
    merge = MergeSpec(command=("merge",), outputs=("all",), walltime=60)
    assert refused(house, "B21", kind="merge", cpu_time=1e9, merge=merge) == set()
    assert refused(house, "B21", cpu_time=1e9, merge=merge) == {"Q"}


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("", {"full", "http", "none", "full#IPv4", "http#IPv6"}),
        ("none", {"full", "http", "none", "full#IPv4", "http#IPv6"}),
        ("http", {"full", "http", "full#IPv4", "http#IPv6"}),
        ("full", {"full", "full#IPv4"}),
        ("none#IPv4", {"full#IPv4"}),
        ("http#IPv6", {"http#IPv6"}),
        ("#IPv6", {"http#IPv6"}),
        ("full#IPv6", set()),
        ("carrier-pigeon", set()),
    ],
)
def test_b22_connectivity_reaches_as_far_and_the_stack_is_equal(asked: str, served: set[str]) -> None:
    offers = ["full", "http", "none", "full#IPv4", "http#IPv6"]
    house = federation([queue(f"Q{number}", connectivity=offer) for number, offer in enumerate(offers)])
    expected = {f"Q{number}" for number, offer in enumerate(offers) if offer not in served}
    assert refused(house, "B22", ip_connectivity=asked) == expected


def test_b24_transferring_jobs_exceed_the_limit_and_twice_the_running() -> None:
    house = federation([queue("OWN", transferring_limit=10), queue("DEFAULT")])

    def full(own: int, default: int, running: int) -> set[str]:
        job_counts = jobs_at("OWN", transferring=own, running=running) + jobs_at(
            "DEFAULT", transferring=default
        )
        return refused_in(world(house, task(), job_counts=job_counts), "B24")

    assert full(10, 2000, 0) == set()
    assert full(11, 2001, 0) == {"OWN", "DEFAULT"}
    assert full(12, 2000, 6) == set()
    assert full(13, 2000, 6) == {"OWN"}


def test_b25_a_nucleus_weight_of_minus_one_keeps_normal_jobs_at_the_nucleus() -> None:
    assert refused(TWO_SITES, "B25", nucleus="HOME", t1_weight=-1) == {"FAR"}
    assert refused(TWO_SITES, "B25", nucleus="HOME") == set()
    assert refused(TWO_SITES, "B25", nucleus="HOME", t1_weight=-1, kind="merge", merge=MERGE) == set()
    assert refused(TWO_SITES, "B25", t1_weight=-1) == set()
    assert refused(TWO_SITES, "B25", nucleus="HOME", t1_weight=-1, kind="scout") == {"FAR"}


def test_b26_a_pilot_was_seen_in_the_last_three_hours() -> None:
    house = federation([queue("Q", computing_element=None)])
    seen = (queue_report("Q", last_pilot=NOW - 3 * HOUR),)
    gone = (queue_report("Q", last_pilot=NOW - 3 * HOUR - 1),)
    assert refused_in(world(house, task(), queue_reports=seen), "B26") == set()
    assert refused_in(world(house, task(), queue_reports=gone), "B26") == {"Q"}
    assert refused_in(world(house, task()), "B26") == {"Q"}
    assert refused_in(world(federation([queue("Q")]), task(), queue_reports=gone), "B26") == set()


def test_b26_a_queue_that_never_called_is_refused_three_hours_after_the_first_submission() -> None:
    def is_refused(ago: float, **seen: Any) -> bool:
        told = (queue_report("Q", first_submission=NOW - ago, **seen),)
        return bool(refused_in(world(federation([queue("Q")]), task(), queue_reports=told), "B26"))

    assert not is_refused(3 * HOUR)
    assert is_refused(3 * HOUR + 1)
    assert not is_refused(3 * HOUR + 1, last_pilot=NOW - 60)
    assert not is_refused(600, calls_elsewhere=True)
    assert is_refused(601, calls_elsewhere=True), "as many that were submitted elsewhere have called"


@pytest.mark.parametrize(
    "spec",
    [{"priority": 1000}, {"processing_type": "urgent"}, {"processing_type": "very-urgent-reprocessing"}],
)
def test_b27_urgent_work_needs_a_good_network(spec: dict[str, Any]) -> None:
    # 0.5 x (2 + 1.5) = 1.75 and 0.5 x (2 + 1.3) = 1.65, on either side of 1.7.
    assert refused(federation_linked_by(throughput_1h=21), "B27", nucleus="HOME", **spec) == set()
    assert refused(federation_linked_by(throughput_1h=20), "B27", nucleus="HOME", **spec) == {"FAR"}
    assert refused(federation_linked_by(throughput_1h=20), "B27", **spec) == set()
    assert refused(federation_linked_by(throughput_1h=20), "B27", nucleus="HOME", priority=999) == set()


def test_b27_a_weight_that_equals_the_threshold_passes_whatever_is_rounded() -> None:
    """1.1 x 1.5 is 1.6500000000000001, and the weight is 1.65."""
    linked = federation_linked_by(throughput_1h=20)
    constants = replace(linked.brokerage, nw_threshold=1.1, nw_weight_multiplier=1.5)
    house = replace(linked, brokerage=constants)
    assert refused(house, "B27", nucleus="HOME", priority=1000) == set()
