"""A person changes what a task says for jobs that have not started, and for those that are retried."""

import time
from dataclasses import fields, replace
from typing import Any

import pytest

from pilotage.agent.wire import MatchAnswer
from pilotage.federation.faults import BadDocument, field_name
from pilotage.flow.calls.pilots.match import specification
from pilotage.flow.calls.work import steering
from pilotage.flow.calls.work.changes import Wanted, set_fields, set_preview
from pilotage.flow.calls.work.retry import retry, retry_preview
from pilotage.flow.calls.work.task_fields import changes_of_jobs
from pilotage.flow.errors import NotNow
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.decision import Create, Decision
from pilotage.model.documents.world import Report
from pilotage.model.records.job_changes import MOST_NOTES, OF_OTHER_JOBS, STAYING
from pilotage.model.records.requirements import Requirements
from pilotage.model.records.spec_parts import MergeSpec
from pilotage.model.records.states import JobState
from pilotage.model.records.work import NewJob, TaskSpec
from pilotage.model.rules.changed_jobs import MANY_CHANGES
from pilotage.store.tasks.work import one_task, unstarted_jobs_of

from .house import House, attempts, meanwhile

J = JobState
ALICE = "user:alice"


def wanted(**fields: Any) -> Wanted:
    return Wanted(fields=fields)


def limits(answer: MatchAnswer) -> set[tuple[float, float]]:
    """Memory and walltime that payloads are held to."""
    return {(work.memory_limit, work.walltime) for work in answer.works}


def causes(house: House, job: int) -> list[str]:
    found = house.store.queries.job(job)
    assert found is not None
    return [event.cause for event in found.events]


def jobs_of(house: House, task: int) -> list[int]:
    return [job.id for job in house.store.queries.jobs(task, None, 100)]


def faults(caught: pytest.ExceptionInfo[BadDocument]) -> dict[str, str]:
    return {field_name(fault.path): fault.text for fault in caught.value.faults}


@pytest.mark.parametrize("brokered", [False, True])
def test_set_changes_jobs_that_have_not_started_for_broker_task_queue_and_payload(
    house: House, *, brokered: bool
) -> None:
    house.federate(max_memory=8000)
    task = house.task(jobs=3, ram=1000, walltime=600, command=("x",))
    if brokered:
        house.take("broker")
    before = J.ACTIVATED if brokered else J.DEFINED
    assert set_fields(house.runtime, task, wanted(ram=4000, walltime=7200), ALICE) == {before: 3}
    assert house.states(task) == {J.DEFINED: 3}
    (job, *_) = jobs_of(house, task)
    asked = Requirements.from_text(house.store.queries.requirements(job))
    assert (asked.memory, asked.walltime) == (4000, 7200)
    assert causes(house, job)[-1] == "changed by user:alice: ram 1000 to 4000, walltime 600 to 7200"
    house.take("broker")
    pilot = house.pilot()
    answer = house.match(pilot)
    assert limits(answer) == {(4000, 7200)}
    (held, _), *_ = attempts(answer)
    told = specification(house.runtime, held, pilot)
    assert told is not None
    assert (told.spec["ram"], told.spec["walltime"]) == (4000, 7200)
    shown = house.store.queries.task(task)
    assert shown is not None
    (note,) = shown.changes
    assert (note.by, note.what, note.jobs) == (ALICE, "ram 1000 to 4000, walltime 600 to 7200", 3)


def test_a_change_that_brokerage_sees_moves_jobs_to_a_queue_that_fits(house: House) -> None:
    found = house.store.federation()
    (queue,) = found.queues
    large = replace(queue, name="large", max_memory=9000)
    house.store.save_federation(replace(found, queues=(replace(queue, max_memory=2000), large)), "test")
    task = house.task(jobs=2, ram=1000)
    house.take("broker")
    set_fields(house.runtime, task, wanted(memory=5000), ALICE)
    house.take("broker")
    assert {job.queue for job in house.store.queries.jobs(task, None, 10)} == {"large"}


def test_jobs_that_are_alike_but_for_a_change_are_matched_and_limited_each_by_its_own(house: House) -> None:
    task = house.task(jobs=3, ram=1000, command=("x",))
    one, *_ = jobs_of(house, task)
    set_fields(house.runtime, task, wanted(ram=3000), ALICE, one)
    house.take("broker")
    answer = house.match(house.pilot())
    by_job = {order.job: work.memory_limit for work in answer.works for order in work.jobs}
    assert by_job[one] == 3000
    assert sorted(by_job.values()) == [1000, 1000, 3000]
    shown = house.store.queries.task(task)
    assert shown is not None
    assert [note.job for note in shown.changes] == [one]


def test_jobs_made_later_have_the_changes_too(house: House) -> None:
    merge = MergeSpec(command=("cat",), outputs=("all",), ram=10)
    spec = {"jobs": 2, "ram": 1000, "command": ("x",), "outputs": ("out",), "merge": merge}
    ((_, task),) = house.submit(spec).tasks
    assert set_fields(house.runtime, task, wanted(ram=2500, priority=600), ALICE) == {}
    house.take("split")
    asked = {
        Requirements.from_text(house.store.queries.requirements(job)).memory for job in jobs_of(house, task)
    }
    assert asked == {2500}
    assert {job.priority for job in house.store.queries.jobs(task, None, 10)} == {600}


def test_priority_and_share_change_where_jobs_are_counted(house: House) -> None:
    task = house.task(jobs=2)
    house.take("broker")
    set_fields(house.runtime, task, wanted(priority=700), ALICE)
    house.take("broker")
    assert {job.priority for job in house.store.queries.jobs(task, None, 10)} == {700}
    assert len(attempts(house.match(house.pilot()))) == 2


def test_held_jobs_change_where_they_are(house: House) -> None:
    task = house.task(jobs=2, ram=100)
    steering.hold(house.runtime, task, ALICE)
    house.take("broker")
    assert set_fields(house.runtime, task, wanted(ram=200), ALICE) == {J.HELD: 2}
    assert house.states(task) == {J.HELD: 2}
    steering.release(house.runtime, task, ALICE)
    house.take("broker")
    assert {work.memory for work in house.match(house.pilot()).works} == {200}


def test_a_change_to_what_is_asked_already_touches_nothing(house: House) -> None:
    task = house.task(jobs=2, ram=100)
    house.take("broker")
    assert set_fields(house.runtime, task, wanted(ram=100), ALICE) == {}
    assert house.states(task) == {J.ACTIVATED: 2}


def test_a_change_that_no_queue_fits_is_refused_with_the_reason_unless_anyway(house: House) -> None:
    house.federate(max_memory=2000)
    task = house.task(jobs=2, ram=1000)
    house.take("broker")
    with pytest.raises(NotNow, match=r"memory at 1 queue(.|\n)*--anyway"):
        set_fields(house.runtime, task, wanted(ram=64_000), ALICE)
    assert house.states(task) == {J.ACTIVATED: 2}
    set_fields(house.runtime, task, Wanted(fields={"ram": 64_000}, anyway=True), ALICE)
    house.take("broker")
    assert house.states(task) == {J.PENDING: 2}
    assert set_fields(house.runtime, task, wanted(ram=500), ALICE) == {J.PENDING: 2}
    house.take("broker")
    assert house.states(task) == {J.ACTIVATED: 2}


def test_a_preview_tells_where_jobs_would_go_and_touches_nothing(house: House) -> None:
    house.federate(max_memory=2000)
    task = house.task(jobs=2, ram=1000)
    moved, found = set_preview(house.runtime, task, wanted(ram=64_000))
    assert (moved, found.closed) == ({J.DEFINED: 2}, ("north-queue",))
    assert [(one.field, one.before, one.after) for one in found.changes] == [("ram", 1000, 64_000)]
    job, *_ = jobs_of(house, task)
    assert Requirements.from_text(house.store.queries.requirements(job)).memory == 1000


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"rma": 1}, {"rma": "there is no such field; did you mean ram?"}),
        ({"ram": "lots"}, {"ram": "'lots' is not a number; give MB, without quotes"}),
        ({"ram": -1}, {"ram": "-1 is below 0; give MB"}),
        ({"ram": 1e99}, {"ram": "1e+99 is above 1e+09; give MB"}),
        (
            {"memory": 1, "ram": 1},
            {"memory": "is all that a job may use, in MB, and stands for ram too; give one of them"},
        ),
        (
            {"queues": ["nrth-queue"]},
            {"queues[0]": "there is no queue 'nrth-queue'; did you mean north-queue?"},
        ),
        ({"command": ["y"]}, {"command": "stays as it is for jobs that are made; submit another task"}),
        (
            {"jobs": 3},
            {
                "jobs": "would make other jobs, and these are made; plan the other task: "
                "pilotage plan broker --task FILE"
            },
        ),
        (
            {"cores": 4, "max_cores": 2},
            {"max_cores": "2 is below the 4 cores asked; give 4 or more, or 0 for no limit"},
        ),
    ],
)
def test_fields_are_bounded_as_in_the_task_document(
    house: House, fields: dict[str, Any], told: dict[str, str]
) -> None:
    task = house.task(jobs=1)
    with pytest.raises(BadDocument) as caught:
        set_fields(house.runtime, task, Wanted(fields=fields), ALICE)
    assert faults(caught) == told
    cancel(house.runtime, task, "enough", ALICE)
    with pytest.raises(BadDocument) as caught:
        retry(house.runtime, task, ALICE, None, Wanted(fields=fields))
    assert faults(caught) == told


def test_set_says_what_works_where_a_job_runs_or_its_task_has_ended(house: House) -> None:
    task = house.task(jobs=2, max_attempts=1)
    house.take("broker")
    pilot = house.pilot()
    (running, attempt), *_ = attempts(house.match(pilot, most=1))
    house.report(pilot, "running", [(running, attempt)])
    with pytest.raises(NotNow, match=f"job {running} is running.*pilotage cancel job:{running}, then"):
        set_fields(house.runtime, task, wanted(ram=1), ALICE, running)
    assert set_fields(house.runtime, task, wanted(ram=1), ALICE) == {J.ACTIVATED: 1}
    house.take("broker")
    (other, _), *_ = attempts(house.match(house.pilot()))
    with pytest.raises(NotNow, match=r"no job of task .* is left to start"):
        set_fields(house.runtime, task, wanted(ram=2), ALICE)
    house.tell(pilot, Report(job=running, attempt=attempt, state="failed", error="no", exit_code=1))
    with pytest.raises(NotNow, match=f"pilotage retry job:{running} --set"):
        set_fields(house.runtime, task, wanted(ram=1), ALICE, running)
    cancel(house.runtime, task, "enough", ALICE)
    with pytest.raises(NotNow, match=f"pilotage retry {task} --set"):
        set_fields(house.runtime, task, wanted(ram=1), ALICE)
    assert other != running


def failed(house: House, bad: int, **spec: Any) -> tuple[int, list[int]]:
    task = house.task(**{"jobs": 3, "max_attempts": 1, "ram": 1000, "command": ("x",), **spec})
    house.take("broker")
    pilot = house.pilot()
    found = sorted(attempts(house.match(pilot)))
    for place, (job, attempt) in enumerate(found):
        state: Any = "failed" if place < bad else "done"
        house.tell(
            pilot, Report(job=job, attempt=attempt, state=state, error="no", exit_code=int(place < bad))
        )
    house.take("finish")
    return task, [job for job, _ in found]


def test_retry_with_changes_changes_what_it_retries(house: House) -> None:
    task, jobs = failed(house, 2)
    moved, found = retry_preview(house.runtime, task, None, wanted(ram=4000))
    assert (moved, found.changes[0].after) == ({J.FAILED: 2}, 4000)
    assert house.states(task) == {J.FAILED: 2, J.FINISHED: 1}
    assert retry(house.runtime, task, ALICE, None, wanted(ram=4000)).moved == {J.FAILED: 2}
    assert causes(house, jobs[0])[-1] == "retried by a person, with ram 1000 to 4000"
    house.take("broker")
    assert {work.memory_limit for work in house.match(house.pilot()).works} == {4000}
    shown = house.store.queries.task(task)
    assert shown is not None
    assert [(note.by, note.what, note.jobs) for note in shown.changes] == [(ALICE, "ram 1000 to 4000", 2)]


def test_a_retry_whose_changes_no_queue_fits_is_refused(house: House) -> None:
    house.federate(max_memory=2000)
    task, jobs = failed(house, 1)
    with pytest.raises(NotNow, match=r"memory(.|\n)*--anyway"):
        retry(house.runtime, task, ALICE, jobs[0], wanted(ram=64_000))
    assert house.states(task) == {J.FAILED: 1, J.FINISHED: 2}
    retry(house.runtime, task, ALICE, jobs[0], Wanted(fields={"ram": 64_000}, anyway=True))
    assert house.states(task) == {J.DEFINED: 1, J.FINISHED: 2}


def test_a_later_change_replaces_an_earlier_one_and_keeps_the_rest(house: House) -> None:
    task, _ = failed(house, 1)
    retry(house.runtime, task, ALICE, None, wanted(ram=2000, walltime=100))
    set_fields(house.runtime, task, wanted(ram=3000), ALICE)
    house.take("broker")
    assert limits(house.match(house.pilot())) == {(3000, 100)}


def test_a_person_who_goes_on_changing_a_task_adds_no_more_causes(house: House) -> None:
    task = house.task(jobs=1, ram=1000, command=("x",))
    (job,) = jobs_of(house, task)
    for more in range(1, MOST_NOTES + 4):
        set_fields(house.runtime, task, wanted(ram=1000 + more), ALICE)
    assert causes(house, job)[-4].endswith(f"ram {1000 + MOST_NOTES - 1} to {1000 + MOST_NOTES}")
    assert set(causes(house, job)[-3:]) == {f"changed by {ALICE}: {MANY_CHANGES}"}
    shown = house.store.queries.task(task)
    assert shown is not None
    assert shown.changes[-1].what == f"ram {1000 + MOST_NOTES + 2} to {1000 + MOST_NOTES + 3}"


def test_a_merge_job_changes_by_its_own_number(house: House) -> None:
    merge = MergeSpec(command=("cat",), outputs=("all",), ram=10)
    task = house.task(jobs=1, ram=1000, command=("x",), outputs=("o",), optional_outputs=("o",), merge=merge)
    # Made by hand: its parts do not matter here.
    record = NewJob(task=task, kind="merge", share="default", priority=500, requirements="")
    create = Create(records=(record,), cause="test")
    decision = Decision(step="test", time=house.now, seed=1, changes=(create,))
    (made,) = house.store.commit(decision, "test").created[0]
    assert made is not None
    with pytest.raises(BadDocument) as caught:
        set_fields(house.runtime, task, wanted(cores=2), ALICE, made)
    assert faults(caught) == {"cores": "is not taken by merge jobs; set ram, memory or walltime"}
    # With its task only the others change, for the merge job has needs of its own.
    assert set_fields(house.runtime, task, wanted(ram=2000), ALICE) == {J.DEFINED: 1}
    assert house.store.queries.requirements(made) == ""
    set_fields(house.runtime, task, Wanted(fields={"ram": 700}, anyway=True), ALICE, made)
    assert Requirements.from_text(house.store.queries.requirements(made)).memory == 700


def test_every_field_of_a_task_is_known_to_change_or_to_stay() -> None:
    """A new field belongs to ``STAYING``, or here, and then everything that reads it must see the change."""
    changing = {
        *("share", "priority", "queues", "cores", "max_cores", "gpus", "ram", "ram_unit", "base_ram"),
        *("cpu_time", "cpu_efficiency", "base_time", "walltime", "work_disk", "out_disk", "io_intensity"),
        *("disk_io", "direct_access_only", "copy_inputs", "ip_connectivity", "architecture", "sw_project"),
        *("sw_version", "nightlies", "container_name", "only_tags", "event_service", "processing_type"),
        *("working_group", "t1_weight", "stations", "site_requirements", "site_rank", "private_pilots"),
        *("force_generic", "submit_pools"),
    }
    assert {part.name for part in fields(TaskSpec)} == changing | STAYING | OF_OTHER_JOBS


def test_a_change_of_jobs_with_many_earlier_changes_does_not_check_all_rows_for_each(house: House) -> None:
    rows = tuple(f"{n}.txt" for n in range(20_000))
    task = house.task(command=("cat", "{file}"), outputs=("{file}",), parameters={"file": rows})
    world = house.runtime.world(one_task(task), "task_counts", "advertisements", unstarted_jobs_of(task))
    changed = [replace(world.jobs[0], changes=f'{{"walltime":{at}}}') for at in range(600, 700)]
    begun = time.process_time()
    assert changes_of_jobs(world, changed, {"ram": 1500}) == {"ram": 1500}
    assert time.process_time() - begun < 2.0


def test_a_retry_with_changes_and_a_change_at_once_both_count_for_later_jobs(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = house.task(jobs=2, max_attempts=1, ram=1000, command=("x",))
    house.take("broker")
    pilot = house.pilot()
    ((job, attempt),) = attempts(house.match(pilot, most=1))
    house.tell(pilot, Report(job=job, attempt=attempt, state="failed", error="no", exit_code=1))
    meanwhile(house, monkeypatch, lambda: set_fields(house.runtime, live, wanted(walltime=7200), "user:bob"))
    retry(house.runtime, live, ALICE, None, wanted(ram=4000))
    shown = house.store.queries.task(live)
    assert shown is not None
    assert [(note.by, note.what) for note in shown.changes] == [
        ("user:bob", "walltime 0 to 7200"),
        (ALICE, "ram 1000 to 4000"),
    ]


@pytest.mark.parametrize("state", [J.DEFINED, J.HELD, J.ACTIVATED])
def test_two_changes_at_once_both_count(
    house: House, monkeypatch: pytest.MonkeyPatch, state: JobState
) -> None:
    task = house.task(jobs=3, ram=1000, walltime=600, command=("x",))
    if state is J.HELD:
        steering.hold(house.runtime, task, ALICE)
    if state is J.ACTIVATED:
        house.take("broker")
    meanwhile(house, monkeypatch, lambda: set_fields(house.runtime, task, wanted(walltime=7200), "user:bob"))
    set_fields(house.runtime, task, wanted(ram=4000), ALICE)
    if state is J.HELD:
        steering.release(house.runtime, task, ALICE)
    house.take("broker")
    assert limits(house.match(house.pilot())) == {(4000, 7200)}
    shown = house.store.queries.task(task)
    assert shown is not None
    assert [(note.by, note.what, note.jobs) for note in shown.changes] == [
        ("user:bob", "walltime 600 to 7200", 3),
        (ALICE, "ram 1000 to 4000", 3),
    ]


def test_a_placement_decided_before_a_change_is_handed_back(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.federate(max_memory=2000)
    task = house.task(jobs=2, ram=1000)
    change = Wanted(fields={"ram": 64_000}, anyway=True)
    meanwhile(house, monkeypatch, lambda: set_fields(house.runtime, task, change, ALICE))
    house.take("broker")
    house.take("broker")
    assert house.states(task) == {J.PENDING: 2}


def test_a_change_counts_for_jobs_whose_split_is_in_flight(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"jobs": 3, "ram": 1000, "command": ("x",)}
    ((_, first), (_, second)) = house.submit(spec, spec).tasks
    meanwhile(house, monkeypatch, lambda: set_fields(house.runtime, first, wanted(ram=4000), ALICE))
    house.take("split")
    house.take("split")
    assert memories(house, first) == [4000] * 3
    assert memories(house, second) == [1000] * 3


def test_jobs_that_are_split_off_during_a_change_have_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((_, task),) = house.submit({"jobs": 3, "ram": 1000, "command": ("x",)}).tasks
    meanwhile(house, monkeypatch, lambda: house.take("split"))
    set_fields(house.runtime, task, wanted(ram=4000), ALICE)
    assert memories(house, task) == [4000] * 3


def memories(house: House, task: int) -> list[float]:
    return [
        Requirements.from_text(house.store.queries.requirements(job)).memory for job in jobs_of(house, task)
    ]
