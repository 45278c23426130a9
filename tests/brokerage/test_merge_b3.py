"""B3: merge jobs are pre-assigned where their input lies, until they have been skipped for 24 h."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, JobKind, MergeSpec, Replica
from pilotage.policies.brokerage.engine import verdicts
from pilotage.testing import HOUR, NOW, federation, jobs, jobs_at, queue, task, world
from pilotage.testing.choices import decide, only_choice, refused_in

MERGE = MergeSpec(command=("merge",), outputs=("all",), walltime=60)
HOUSE = federation([queue("NEAR"), queue("AWAY-1", site="AWAY"), queue("AWAY-2", site="AWAY")])


def _merging(
    *placed: tuple[str, int],
    house: Any = HOUSE,
    age: float = 0,
    skipped: float | None = None,
    kind: JobKind = "merge",
    **spec: Any,
) -> World:
    """One merge job of files, each given by the site that holds it and its bytes."""
    asked = task(merge=MERGE, outputs=("part",), **spec)
    names = tuple(f"part.{number}" for number in range(len(placed)))
    (job,) = jobs(asked, kind=kind, inputs=names)
    return world(
        house,
        asked,
        jobs=(replace(job, created=NOW - age, skipped_since=None if skipped is None else NOW - skipped),),
        files=tuple(
            File(name=name, size=size, checksum="") for name, (_, size) in zip(names, placed, strict=True)
        ),
        replicas=tuple(
            Replica(file=name, storage=f"{site}-DISK")
            for name, (sites, _) in zip(names, placed, strict=True)
            for site in sites.split()
        ),
    )


def test_b3_merge_jobs_go_to_the_queues_whose_storage_holds_their_input() -> None:
    assert refused_in(_merging(("AWAY", 1), ("AWAY", 1)), "B3") == {"NEAR"}
    assert refused_in(_merging(("HOME", 1)), "B3") == {"AWAY-1", "AWAY-2"}


def test_b3_most_bytes_decide_and_equal_ones_are_equal() -> None:
    assert refused_in(_merging(("HOME", 10), ("AWAY", 4), ("AWAY", 5)), "B3") == {"AWAY-1", "AWAY-2"}
    assert refused_in(_merging(("HOME", 10), ("AWAY", 4), ("AWAY", 7)), "B3") == {"NEAR"}
    assert refused_in(_merging(("HOME", 10), ("AWAY", 10)), "B3") == set()
    assert refused_in(_merging(("HOME AWAY", 10), ("AWAY", 1)), "B3") == {"NEAR"}


def test_b3_files_without_bytes_count_by_their_number() -> None:
    assert refused_in(_merging(("HOME", 0), ("AWAY", 0), ("AWAY", 0)), "B3") == {"NEAR"}


def test_b3_it_is_ignored_once_they_were_skipped_for_24_hours() -> None:
    assert refused_in(_merging(("AWAY", 1), skipped=24 * HOUR - 1), "B3") == {"NEAR"}
    assert refused_in(_merging(("AWAY", 1), skipped=24 * HOUR), "B3") == set()


def test_b3_the_24_hours_count_from_the_first_time_it_was_skipped_not_from_its_making() -> None:
    assert refused_in(_merging(("AWAY", 1), age=100 * HOUR), "B3") == {"NEAR"}
    assert refused_in(_merging(("AWAY", 1), age=100 * HOUR, skipped=HOUR), "B3") == {"NEAR"}


def test_b3_the_queues_that_a_task_names_stand_first() -> None:
    state = _merging(("AWAY", 1), queues=("NEAR",))
    assert refused_in(state, "B3") == set()
    assert refused_in(state, "B2") == {"AWAY-1", "AWAY-2"}


def test_b3_is_for_merge_jobs_with_input_only() -> None:
    assert refused_in(_merging(("AWAY", 1), kind="normal"), "B3") == set()
    assert refused_in(_merging(("AWAY", 1), kind="scout"), "B3") == set()
    assert refused_in(_merging(), "B3") == set()


def test_b3_storages_that_no_queue_reads_and_tapes_do_not_count() -> None:
    assert refused_in(_merging(("HOME", 1), ("AWAY", 9), house=federation([queue("NEAR")])), "B3") == set()
    taped = federation([queue("NEAR"), queue("FAR", site="AWAY")], storages={"AWAY": {"tape": True}})
    assert refused_in(_merging(("HOME", 1), ("AWAY", 9), house=taped), "B3") == {"FAR"}


@pytest.mark.parametrize(
    ("name", "status", "rule"), [("FAR", "offline", "B4"), ("FAR", "paused", "B4"), ("TEST", "online", "B1")]
)
def test_b3_merge_jobs_never_wait_at_a_queue_where_nothing_can_run_or_that_tests(
    name: str, status: str, rule: str
) -> None:
    house = federation([queue("NEAR"), queue(name, site="AWAY", status=status)])
    state = _merging(("AWAY", 1), house=house)
    assert refused_in(state, rule) == {name}
    (move,) = decide(state).moves
    assert move.target is JobState.PENDING
    late = only_choice(_merging(("AWAY", 1), house=house, skipped=24 * HOUR))
    assert late.candidates.queues == ("NEAR",)


def test_b3_a_unified_queue_stands_back_for_its_pseudo_queues() -> None:
    house = federation([queue("NEAR"), queue("ALL", site="AWAY"), queue("ALL-1", site="AWAY", parent="ALL")])
    assert only_choice(_merging(("AWAY", 1), house=house)).candidates.queues == ("ALL-1",)


def test_b3_merge_jobs_that_no_queue_with_their_input_takes_wait() -> None:
    house = federation([queue("NEAR"), queue("FAR", site="AWAY", max_memory=100)])
    state = _merging(("AWAY", 1), house=house, ram=1000)
    (move,) = decide(state).moves
    assert move.target is JobState.PENDING
    full = replace(
        _merging(("AWAY", 1)),
        job_counts=jobs_at("AWAY-1", activated=21) + jobs_at("AWAY-2", activated=21),
    )
    (move,) = decide(full).moves
    assert move.target is JobState.PENDING, "the 24 h begin with the first refusal of any kind"


def test_b3_what_it_needs_is_told_also_where_tasks_judged_before_have_no_merge_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verdicts, "AT_ONCE", 1)
    merging = _merging(("AWAY", 1))
    others = [
        task(9, priority=900),
        task(10, priority=900, queues=("NEAR",)),
        task(11, priority=900, queues=("AWAY-1",)),
    ]
    state = replace(
        merging,
        tasks=(*others, *merging.tasks),
        jobs=(*(replace(jobs(item)[0], id=90 + item.id) for item in others), *merging.jobs),
    )
    (merge,) = [choice for choice in decide(state).choices if choice.job_kind == "merge"]
    (refusal,) = [refusal for refusal in merge.refusals if refusal.rule == "B3"]
    assert refusal.need == "a queue with most of the input"
