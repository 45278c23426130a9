"""Facts that a running federation gives its brokerage: what B3, B7, B9, B26 and B30 go by."""

from dataclasses import replace

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.outside.workers import Inline
from pilotage.flow.runtime import Runtime
from pilotage.flow.steps import step
from pilotage.model.documents.decision import Create, Decision, Move, Touch
from pilotage.model.documents.world import QueueReport, World
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState as P
from pilotage.model.records.work import NewJob, NewPilot, NewTransfer
from pilotage.store.worlds.whole import WHOLE
from tests.reading import BROKERED, world_of

from .house import ALICE, FakeElement, House


def commit(house: House, *changes: Move | Create | Touch) -> list[int]:
    made = house.store.commit(Decision(step="test", time=house.now, seed=1, changes=changes), "test")
    return [id_ for created in made.created for id_ in created if id_ is not None]


def read(house: House) -> World:
    return world_of(house.store, BROKERED, house.now, 1, 100)


def report(house: House) -> QueueReport:
    (found,) = [one for one in read(house).queue_reports if one.queue == "north-queue"]
    return found


def pilot(house: House, queue: str = "north-queue") -> int:
    new = NewPilot(
        queue=queue,
        requirements="[]",
        kind="generic",
        owner=ALICE,
        cores=1,
        memory=0,
        walltime=60,
    )
    (id_,) = commit(house, Create(records=(new,), cause="wanted"))
    return id_


def move(kind: str, id_: int, source: object, target: object, **changes: object) -> Move:
    return Move(
        kind=kind,  # type: ignore[arg-type]
        ids=(id_,),
        source=source,  # type: ignore[arg-type]
        target=target,  # type: ignore[arg-type]
        cause="test",
        changes=changes,  # type: ignore[arg-type]
    )


def test_b30_submitted_pilots_are_workers(house: House) -> None:
    first, _ = pilot(house), pilot(house)
    assert read(house).queue_reports == ()
    commit(house, move("pilot", first, P.CREATED, P.SUBMITTED))
    assert report(house).batch_workers == 1


def test_b26_pilots_that_all_failed_before_they_called_are_told(house: House) -> None:
    first = pilot(house)
    failure = move("pilot", first, P.CREATED, P.FAILED, error="sbatch: invalid account\nmore")
    commit(house, failure)
    told = report(house)
    assert told.pilots_possible is False
    assert told.pilots_problem == "its last pilots failed before they called home: sbatch: invalid account"
    second = pilot(house)
    commit(house, move("pilot", second, P.CREATED, P.SUBMITTED))
    assert report(house).pilots_possible is None
    commit(house, move("pilot", second, P.SUBMITTED, P.CANCELLED))
    house.now += 59
    assert report(house).pilots_possible is False
    house.now += 1
    assert read(house).queue_reports == (), "its rest is over (P6): one pilot may try"


def test_b26_what_was_submitted_in_vain_is_told_and_whether_others_called(house: House) -> None:
    def submitted(queue: str = "north-queue") -> int:
        number = pilot(house, queue)
        commit(house, move("pilot", number, P.CREATED, P.SUBMITTED, reference=f"batch-{number}"))
        return number

    def call(number: int) -> None:
        commit(house, move("pilot", number, P.SUBMITTED, P.RUNNING, heartbeat=house.now))

    begun = house.now
    submitted()
    house.now += 300
    calling = submitted()
    call(submitted("elsewhere"))
    assert (report(house).first_submission, report(house).calls_elsewhere) == (begun, False)
    call(submitted("elsewhere"))
    assert report(house).calls_elsewhere, "two waited here, and two that were submitted later have called"
    call(calling)
    assert report(house).first_submission is None, "one has called"


def test_b26_jobs_go_to_no_queue_whose_adapter_is_not_installed(house: House) -> None:
    house.federate(computing_element=ComputingElement(kind="nowhere"))
    task = house.task()
    house.take("broker")
    assert house.states(task) == {J.PENDING: 1}
    (choice,) = house.store.queries.task_choices(task)
    (refusal,) = [item for item in choice.refusals if item.rule == "B26"]
    assert "nowhere" in str(refusal.have[0])
    house.federate()
    house.take("lift")
    house.take("broker")
    assert house.states(task) == {J.ACTIVATED: 1}


def test_b26_a_process_that_submits_no_pilots_leaves_adapters_to_another_machine(house: House) -> None:
    house.federate(computing_element=ComputingElement(kind="nowhere"))
    world = world_of(house.store, BROKERED, house.now, 1, 10)
    broker_alone = Runtime(house.store, [step("broker")], load=load, movers=InstalledMovers, workers=Inline())
    assert broker_alone.elements.reported(world) is world
    (report,) = house.runtime.elements.reported(world).queue_reports
    assert report.pilots_possible is False


def test_b9_activated_jobs_that_wait_long_are_dated(house: House) -> None:
    task = house.task()
    house.take("broker")
    assert house.states(task) == {J.ACTIVATED: 1}
    brokered = house.now
    assert all(found.activated_since is None for found in read(house).queue_reports)
    house.now += 2 * 3600
    assert report(house).activated_since == brokered
    # A start is enough for B9: whatever waits there, something runs.
    house.task()
    house.take("broker")
    for source, target in ((J.ACTIVATED, J.SENT), (J.SENT, J.RUNNING)):
        commit(house, move("job", 2, source, target))
    assert report(house).activated_since is None
    house.now += 2 * 3600
    assert report(house).activated_since == brokered


def test_b3_a_merge_job_is_dated_by_its_first_skip(house: House) -> None:
    task = house.task()
    new = NewJob(task=task, kind="merge", share="default", priority=500, requirements="[]")
    (job,) = commit(house, Create(records=(new,), cause="merging"))
    first = house.now
    for _ in range(2):
        assert all(one.skipped_since is None for one in read(house).jobs if one.kind != "merge")
        commit(house, move("job", job, J.DEFINED, J.PENDING, wake_at=house.now))
        house.now += 100
        commit(house, move("job", job, J.PENDING, J.DEFINED))
    for world in (read(house), house.runtime.world(*WHOLE)):
        (merge,) = [job for job in world.jobs if job.kind == "merge"]
        assert merge.skipped_since == first, "a saved world has it, too"


def test_b7_outputs_are_counted_apart_from_inputs(house: House) -> None:
    up = NewTransfer(
        file="a",
        source="south-disk",
        destination="north-disk",
        direction="upload",
        share="_default-upload",
        priority=50,
        source_path="x",
    )
    task = house.task()
    commit(house, Create(records=(up, replace(up, file="b", direction="download")), cause="test"))
    (count,) = read(house).link_counts
    assert (count.source, count.destination, count.files, count.uploads) == ("south-disk", "north-disk", 2, 1)
    assert task


def test_b26_a_queue_whose_pilots_fail_is_tried_again_when_its_rest_is_over(house: House) -> None:
    house.element = element = FakeElement()
    element.refusal = "no such account"
    task = house.task(jobs=2)
    house.take("broker")
    house.take("provision")
    late = house.task()
    house.take("broker")
    assert house.states(late) == {J.PENDING: 1}
    element.refusal = ""
    house.now += 61
    house.take("lift")
    house.take("broker")
    house.take("provision")
    assert (house.states(task), house.states(late)) == ({J.ACTIVATED: 2}, {J.ACTIVATED: 1})
    assert len(element.orders) == 1
