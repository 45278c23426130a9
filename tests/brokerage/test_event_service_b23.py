"""B23: event service and a dynamic number of events; what the number of events changes elsewhere."""

from typing import Any

import pytest

from pilotage.model.records.work import JobKind, MergeSpec, TaskSpec
from pilotage.testing import federation, queue
from pilotage.testing.choices import refused

HOUSE = federation([queue(name.upper(), event_service=name) for name in ("std", "es", "eshigh", "all")])
MERGE = MergeSpec(command=("merge",), outputs=("all",), walltime=60)


@pytest.mark.parametrize(
    ("event_service", "priority", "refusing"),
    [
        (False, 500, {"ES"}),
        (False, 800, {"ES"}),
        (True, 500, {"STD", "ESHIGH"}),
        (True, 799, {"STD", "ESHIGH"}),
        (True, 800, {"STD"}),
    ],
)
def test_b23_queues_take_event_service_jobs_always_never_only_or_only_at_high_priority(
    event_service: bool, priority: int, refusing: set[str]
) -> None:
    assert refused(HOUSE, "B23", event_service=event_service, priority=priority) == refusing


@pytest.mark.parametrize("kind", ["normal", "scout"])
def test_b23_a_dynamic_number_of_events_is_no_reason_to_refuse(kind: JobKind) -> None:
    assert refused(HOUSE, "B23", event_service=True, min_events=1, priority=800, kind=kind) == {"STD"}
    house = federation([queue("STD", event_service="std"), queue("ALL")])
    assert refused(house, "B23", min_events=1, events_per_job=10, kind=kind) == set()


def test_b23_merge_jobs_are_no_event_service_jobs() -> None:
    refusing = refused(HOUSE, "B23", kind="merge", event_service=True, min_events=1, merge=MERGE)
    assert refusing == {"ES"}


def test_b17_and_b21_count_the_smallest_number_of_events_a_job_may_have() -> None:
    house = federation([queue(core_power=1, max_walltime=101, max_workdir=1000)])
    spec: dict[str, Any] = {"cpu_time": 10.0, "cpu_efficiency": 1.0, "out_disk": 90.0, "events_per_job": 20}
    assert refused(house, "B21", **spec) == {"Q"}
    assert refused(house, "B17", **spec) == {"Q"}
    assert refused(house, "B21", min_events=10, **spec) == set()
    assert refused(house, "B17", min_events=10, **spec) == set()
    assert refused(house, "B21", min_events=11, **spec) == {"Q"}
    assert refused(house, "B17", min_events=12, **spec) == {"Q"}


def test_b21_the_least_walltime_is_reached_with_the_largest_number() -> None:
    house = federation([queue(core_power=1, min_walltime=200)])
    spec: dict[str, Any] = {"cpu_time": 10.0, "cpu_efficiency": 1.0, "min_events": 1}
    assert refused(house, "B21", events_per_job=20, **spec) == set()
    assert refused(house, "B21", events_per_job=19, **spec) == {"Q"}


def test_a_walltime_given_for_merging_stands_instead_of_the_cpu_time() -> None:
    spec = TaskSpec(name="t", cpu_time=5, walltime=7, merge=MERGE)
    assert (spec.for_job("merge").cpu_time, spec.for_job("merge").walltime) == (0, 60)
    assert spec.for_job("normal") is spec
    without = TaskSpec(name="t", cpu_time=5, walltime=7, merge=MergeSpec(command=("m",), outputs=("o",)))
    assert (without.for_job("merge").cpu_time, without.for_job("merge").walltime) == (5, 7)
