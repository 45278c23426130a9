"""Tasks that come after others: they wait, read what these made, are held after a failure, and go on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.flow.calls.work import steering, stuck
from pilotage.flow.calls.work.retry import retry
from pilotage.flow.calls.work.submit import SubmissionOutcome, submit
from pilotage.flow.errors import NotNow
from pilotage.flow.planning import plan
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.serialization import to_json
from pilotage.model.records.inputs import InputFile, TaskOutputs
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.spec_parts import MergeSpec, OutputDestination
from pilotage.model.records.states import TaskState
from pilotage.model.values.identity import Identity
from pilotage.store import ARCHIVE, Store, TaskDetails, TaskPage
from pilotage.store.tasks.table import volumes_of

from .house import ALICE, attempts
from .test_publishing import Publisher, refusals

T = TaskState
AGAIN = {"command": ("x",), "outputs": ("out",)}


@pytest.fixture
def house(store: Store, tmp_path: Path) -> Publisher:
    return Publisher(store, tmp_path)


def workflow(house: Publisher, *specs: dict[str, Any], owner: Identity = ALICE) -> SubmissionOutcome:
    """Submit tasks as a workflow."""
    tasks = [TaskSpec(**{"command": ("x",), "outputs": ("out",), "scouts": 0, **spec}) for spec in specs]
    return submit(house.runtime, tasks, owner, workflow="flow")


def chain(house: Publisher, **middle: Any) -> list[int]:
    """Three tasks: the second reads the outputs of the first, the third those of the second."""
    accepted = workflow(
        house,
        {"name": "align", "jobs": 3},
        {"name": "call", "inputs": (TaskOutputs(task="align", match="*"),), "max_attempts": 1, **middle},
        {"name": "report", "inputs": (TaskOutputs(task="call"),), "files_per_job": 9},
    )
    assert not accepted.refused
    house.take("chain")
    return [task for _, task in accepted.tasks]


def seen(house: Publisher, task: int) -> TaskDetails:
    found = house.store.queries.task(task)
    assert found is not None
    return found


def states(house: Publisher, *tasks: int) -> list[TaskState]:
    return [seen(house, task).state for task in tasks]


def run(house: Publisher, bad: int = 0) -> int:
    """Split, broker and run what can run; the first ``bad`` jobs fail, the others leave their outputs."""
    for step in ("chain", "split", "broker"):
        house.take(step)
    pilot = house.pilot()
    answer = house.match(pilot)
    house.report(pilot, "running", attempts(answer))
    found = sorted((job for work in answer.works for job in work.jobs), key=lambda job: job.job)
    for place, job in enumerate(found):
        house.end(pilot, job, "made", place >= bad)
    house.deliver()
    for step in ("finish", "chain"):
        house.take(step)
    return len(found)


def test_a_chain_runs_stage_by_stage_on_what_was_made_without_a_copy(house: Publisher) -> None:
    align, call, report = chain(house)
    assert states(house, align, call, report) == [T.REGISTERED, T.WAITING, T.WAITING]
    assert run(house) == 3
    assert states(house, align, call, report) == [T.FINISHED, T.REGISTERED, T.WAITING]
    found = [one for one in seen(house, call).spec.inputs if isinstance(one, InputFile)]
    assert [(one.name, one.replicas) for one in found] == [
        (f"tasks/flow/{align}/{job}/out", ("north-disk",)) for job in (1, 2, 3)
    ]
    assert run(house) == 3
    assert run(house) == 1
    assert states(house, align, call, report) == [T.FINISHED] * 3
    work = house.store.queries.live_work("ligo")
    assert not work
    volumes = house.store.database.read(lambda connection: volumes_of(connection, (align, call, report)))
    assert volumes == {("ligo", "alice"): house.store.stored_by(ALICE)}


def test_a_stage_reads_what_was_delivered_to_a_place_of_its_task_s_choice(house: Publisher) -> None:
    known = house.store.federation()
    storages = [replace(storage, delivery_folders={"delivered": ()}) for storage in known.storages]
    house.runtime.save_federation(replace(known, storages=tuple(storages)), "test")
    place = OutputDestination(storage="north-disk", path="delivered/chosen")
    accepted = workflow(
        house,
        {"name": "align", "destinations": {"out": place}},
        {"name": "call", "inputs": (TaskOutputs(task="align"),)},
    )
    align, call = (task for _, task in accepted.tasks)
    assert run(house) == 1
    assert run(house) == 1
    assert states(house, align, call) == [T.FINISHED] * 2
    (replica,) = house.store.queries.outputs(align)[0].replicas
    assert replica.url.endswith("/delivered/chosen")


def test_a_failed_stage_holds_what_follows_and_a_retry_lets_it_go_on(house: Publisher) -> None:
    align, call, report = chain(house)
    run(house)
    run(house, bad=1)
    assert states(house, align, call, report) == [T.FINISHED, T.FAILED, T.WAITING]
    assert seen(house, report).error == (
        f"is held: task {call} (call) failed; pilotage retry {call} runs it again, "
        f"pilotage release {report} starts it with what is there"
    )
    blocked = [records.remark for records in stuck.everything(house.runtime) if records.state == "waiting"]
    assert [(remark.subject, remark.text) for remark in blocked] == [
        (f"task:{report}", f"it {seen(house, report).error}")
    ]
    retry(house.runtime, call, "user:alice")
    house.take("chain")
    assert seen(house, report).error == ""
    assert stuck.everything(house.runtime) == []
    assert run(house) == 1
    assert len(seen(house, report).spec.inputs) == 3
    run(house)
    assert states(house, align, call, report) == [T.FINISHED] * 3


def test_a_released_stage_reads_what_is_there(house: Publisher) -> None:
    align, call, report = chain(house)
    with pytest.raises(NotNow, match=rf"waits: task {align} \(align\) is waiting"):
        steering.release(house.runtime, call, "user:alice")
    run(house)
    run(house, bad=1)
    steering.release(house.runtime, report, "user:alice")
    house.take("chain")
    assert states(house, report) == [T.REGISTERED]
    assert len(seen(house, report).spec.inputs) == 2


def test_on_end_goes_on_although_some_jobs_failed(house: Publisher) -> None:
    accepted = workflow(
        house,
        {"name": "align", "jobs": 3, "max_attempts": 1},
        {"name": "report", "after": ("align",), "on": "end"},
    )
    (align, report) = (task for _, task in accepted.tasks)
    run(house, bad=1)
    assert states(house, align, report) == [T.FAILED, T.REGISTERED]


def test_a_cancelled_stage_holds_and_its_retry_waits_again(house: Publisher) -> None:
    align, call, report = chain(house)
    cancel(house.runtime, call, "cancelled by a person", "user:alice")
    house.take("chain")
    assert states(house, align, call, report) == [T.REGISTERED, T.CANCELLED, T.WAITING]
    assert "was cancelled" in seen(house, report).error
    retry(house.runtime, call, "user:alice")
    assert states(house, call) == [T.WAITING]
    for _ in range(3):
        run(house)
    assert states(house, align, call, report) == [T.FINISHED] * 3


def test_a_stage_without_anything_to_read_fails_and_says_what_there_is(house: Publisher) -> None:
    accepted = workflow(
        house,
        {"name": "align"},
        {"name": "call", "inputs": (TaskOutputs(task="align", match="*.bam"),)},
    )
    run(house)
    (align, call) = (task for _, task in accepted.tasks)
    assert states(house, call) == [T.FAILED]
    assert seen(house, call).error == (
        f"nothing to read of task {align} (align): none of its one output, such as out, matches '*.bam'"
    )


def test_of_a_task_that_merges_the_merged_output_is_read(house: Publisher) -> None:
    accepted = workflow(
        house,
        {"name": "align", "jobs": 2, "merge": MergeSpec(command=("m",), outputs=("out",))},
        {"name": "call", "inputs": (TaskOutputs(task="align"),)},
    )
    run(house)
    run(house)
    (align, call) = (task for _, task in accepted.tasks)
    found = [one.name for one in seen(house, call).spec.inputs if isinstance(one, InputFile)]
    assert found == [f"tasks/flow/{align}/3/out"]


def test_a_task_of_earlier_and_its_newest_namesake_are_named_later(house: Publisher) -> None:
    first, second = house.task(name="align"), house.task(name="align")
    ((_, one),) = house.submit({"name": "a", "after": (first,)}).tasks
    ((_, other),) = house.submit({"name": "b", "inputs": (TaskOutputs(task="align"),)}).tasks
    queries = house.store.workflow_queries
    assert [before.task for before in queries.predecessors(one)] == [first]
    assert [before.task for before in queries.predecessors(other)] == [second]


@pytest.mark.parametrize(
    ("specs", "field", "message"),
    [
        (
            [("a", ("c",)), ("b", ("a",)), ("c", ("b",))],
            "after[0]",
            "makes a circle, in which no task can be the first: a -> b -> c -> a",
        ),
        ([("a", ("a",))], "after[0]", "makes a circle, in which no task can be the first: a -> a"),
        ([("a", ()), ("a", ())], "name", "'a' is the name of tasks[0] already; give it another one"),
        ([("a", ("z",))], "after[0]", "you have no task of the name 'z'"),
        ([("a", (77,))], "after[0]", "there is no task 77, or it is not yours"),
        ([(f"t{at}", ()) for at in range(201)], "name", "is one of 201 tasks, above the 200 of a workflow"),
    ],
)
def test_a_wrong_workflow_is_refused_as_a_whole(
    house: Publisher, specs: list[tuple[str, tuple[Any, ...]]], field: str, message: str
) -> None:
    outcome = workflow(house, *({"name": name, "after": after} for name, after in specs))
    assert not outcome.tasks
    told = [fault for _, faults in outcome.refused for fault in faults]
    assert (field, message) in [(place, text[: len(message)]) for place, text in told]
    assert not house.store.task_lists.page(TaskPage(limit=10))
    assert not house.store.workflow_queries.workflows(None, 10)


def test_a_foreign_task_is_no_predecessor(house: Publisher) -> None:
    task = house.task(name="align", owner=Identity(name="bob", vo="ligo"))
    for reference in (task, "align"):
        assert house.submit({"after": (reference,)}).refused


def test_a_task_in_the_same_submission_needs_a_workflow(house: Publisher) -> None:
    ((_, faults),) = house.submit({"name": "align"}, {"name": "b", "after": ("align",)}).refused
    assert faults == [
        (
            "after[0]",
            "you have no task of the name 'align'; it is in this submission: name that with workflow: NAME",
        )
    ]


def test_an_ended_task_frees_the_name_of_its_dataset_and_a_retry_tells_whose_it_is(house: Publisher) -> None:
    task = house.task(output_dataset="results", command=("x",), outputs=("out",), max_attempts=1)
    wanted = {**AGAIN, "output_dataset": "results"}
    assert house.submit(wanted).refused
    cancel(house.runtime, task, "cancelled by a person", "user:alice")
    ((_, other),) = house.submit(wanted).tasks
    with pytest.raises(NotNow, match=rf"results is the dataset of task {other}"):
        retry(house.runtime, task, "user:alice")


def test_a_retry_makes_the_version_after_the_one_that_another_task_made_meanwhile(house: Publisher) -> None:
    task = house.asked("mids", jobs=2, max_attempts=1, scouts=0)
    run(house, bad=1)
    other = house.asked("mids", scouts=0)
    run(house)
    house.take("publish")
    told = retry(house.runtime, task, "user:alice").lines
    mids = "user.alice~ligo:mids"
    assert told == (
        f"{mids}@1, made by task:{other}, stays; the outputs of task {task} become the next version",
    )
    run(house)
    house.take("publish")
    made = house.store.datasets.versions(mids, 10)
    assert [(one.version, one.author, one.files) for one in made] == [
        (2, f"task:{task}", 2),
        (1, f"task:{other}", 1),
    ]


def test_files_of_two_tasks_are_never_mixed_in_a_dataset_of_another_catalogue(house: Publisher) -> None:
    task = house.asked(jobs=2, max_attempts=1, scouts=0)
    run(house, bad=1)
    house.take("publish")
    assert len(house.gathered().files) == 1
    assert refusals(house.submit({**AGAIN, "output_dataset": "rucio~user.alice:results"}).refused) == [
        f"rucio~user.alice:results is the dataset of task {task}; its catalogue keeps no versions, so each "
        "task needs a name of its own, like rucio~user.alice:results.2; or leave the catalogue out: results "
        "is in your own scope, and gets a new version from each task"
    ]
    retry(house.runtime, task, "user:alice")
    run(house)
    house.take("publish")
    assert len(house.gathered().files) == 2
    assert house.gathered().closed


def test_a_saved_world_gives_the_same_decision(house: Publisher) -> None:
    chain(house)
    run(house)
    now = house.runtime.begin(100)
    world = house.store.snapshots.whole(now.time, now.seed)
    decided = plan("chain", world)
    assert to_json(decided) == to_json(plan("chain", world))
    assert {stage.task for stage in world.stages} == {3}


def test_a_retry_names_who_has_read_and_changes_nothing_that_was_read(house: Publisher) -> None:
    accepted = workflow(
        house,
        {"name": "align", "jobs": 3, "max_attempts": 1, "output_dataset": "results"},
        {"name": "call", "inputs": (TaskOutputs(task="align"),), "on": "end"},
    )
    (align, call) = (task for _, task in accepted.tasks)
    run(house, bad=1)
    run(house)
    before = seen(house, call).spec.inputs
    (reader,) = house.store.workflow_queries.readers(align, 10)
    assert (reader.id, reader.name, reader.files) == (call, "call", 2)
    retry(house.runtime, align, "user:alice")
    run(house)
    house.take("publish")
    assert states(house, align, call) == [T.FINISHED, T.FINISHED]
    assert seen(house, call).spec.inputs == before
    version = house.store.datasets.version("user.alice~ligo:results")
    assert version is not None
    assert version.files == 3


def test_the_archive_keeps_what_a_waiting_task_comes_after(house: Publisher) -> None:
    align, call, report = chain(house)
    steering.hold(house.runtime, call, "user:alice")
    run(house)
    assert states(house, align, call, report) == [T.FINISHED, T.WAITING, T.WAITING]
    house.now += 1000

    assert house.store.leases.take(ARCHIVE, "test", house.now, lambda _: False)

    def archived() -> set[int]:
        found: set[int] = set()
        while (part := house.store.archive.next(house.now - 1, 100)) is not None:
            found |= set(part.ids) if part.kind == "task" else set()
            house.store.archive.delete(part, "test")
        return found

    assert archived() == set()
    cancel(house.runtime, report, "cancelled by a person", "user:alice")
    cancel(house.runtime, call, "cancelled by a person", "user:alice")
    house.now += 1000
    assert archived() == {align, call, report}
    assert not house.store.workflow_queries.workflows(None, 10)


def test_a_held_task_does_not_start_before_its_release(house: Publisher) -> None:
    align, call, _ = chain(house)
    steering.hold(house.runtime, call, "user:alice")
    run(house)
    assert states(house, align, call) == [T.FINISHED, T.WAITING]
    steering.release(house.runtime, call, "user:alice")
    house.take("chain")
    assert states(house, call) == [T.REGISTERED]
