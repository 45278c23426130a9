"""The same task file means the same files always, and nobody occupies another's names."""

from dataclasses import replace

from pilotage.flow.calls.data.catalogue import register
from pilotage.flow.calls.work.submit import SubmissionOutcome
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, InputFile, InputPattern, Replica
from pilotage.model.values.identity import Identity
from pilotage.testing.stores import create
from tests.waiting import wait_for

from .house import ALICE, House

ATLAS = Identity(name="alice", vo="atlas")
EVERYTHING = InputPattern(storages=("north-disk", "south-disk"), glob="**")


def found(house: House) -> list[str]:
    """The names that a pattern of everything stands for now."""
    ((_, task),) = house.submit({"inputs": (EVERYTHING,)}).tasks
    view = house.store.queries.task(task)
    assert view is not None
    return [file.name for file in view.spec.inputs if isinstance(file, InputFile)]


def staged(house: House, task: int) -> None:
    """Take passes until the job's inputs are at its queue."""

    def has_arrived() -> bool:
        house.take("stage")
        return house.states(task) == {JobState.ACTIVATED: 1}

    wait_for(has_arrived, "the inputs are at the queue")


def test_a_pattern_finds_the_same_files_after_other_tasks_ran(house: House) -> None:
    (house.place / "south" / "data").mkdir()
    (house.place / "south" / "data" / "f").write_bytes(b"four")
    assert found(house) == ["data/f"]
    task = house.task(inputs=(InputFile(name="data/f", size=4, replicas=("south-disk",)),))
    house.take("broker")
    staged(house, task)
    copy = ".copies/flow/ligo/data/f"
    assert (house.place / "north" / copy).read_bytes() == b"four"
    made = house.place / "north" / "tasks" / "flow" / str(task) / "1" / "out"
    made.parent.mkdir(parents=True)
    made.write_bytes(b"made by a job")
    assert found(house) == ["data/f"]
    works = house.match(house.pilot()).works
    ((order,),) = (job.inputs for work in works if work.task == task for job in work.jobs)
    assert (order.name, order.path) == ("data/f", copy)


def test_two_vos_give_one_name_to_different_files(house: House) -> None:
    def submitted(owner: Identity, size: int) -> SubmissionOutcome:
        reading = {"inputs": (InputFile(name="f", size=size, replicas=("north-disk",)),)}
        return house.submit(reading, owner=owner)

    assert submitted(ALICE, 5).refused == []
    assert submitted(ATLAS, 6).refused == []
    ((_, ((field, message),)),) = submitted(replace(ATLAS, name="another"), 7).refused
    assert field == "inputs"
    assert "atlas:f is known with 6 bytes" in message


def test_a_name_in_another_s_scope_is_refused_with_one_s_own_scopes(house: House) -> None:
    inputs = (
        InputFile(name="a", size=1, replicas=("north-disk",), scope="user.alice~ligo"),
        InputFile(name="b", size=1, replicas=("north-disk",), scope="atlas"),
    )
    ((_, faults),) = house.submit({"inputs": inputs}).refused
    assert faults == [
        ("inputs[1].scope", "'atlas' is not yours; give one of ligo, user.alice~ligo, or leave it out")
    ]


def test_a_pattern_without_storages_finds_what_is_registered_and_reads_nothing(house: House) -> None:
    """The files need not even be there: what a manifest says of them is believed until they are moved."""
    names = ("runs/1/a.dat", "runs/1/b.txt", "runs/2/c.dat")
    files = [
        InputFile(name=name, size=10**12, checksum="md5:" + "1" * 32, replicas=("south-disk",), scope="ligo")
        for name in names
    ]
    other = InputFile(name="runs/9/d.dat", size=1, replicas=("south-disk",), scope="atlas")
    register(house.runtime, [*files, other], "test")
    ((_, task),) = house.submit({"inputs": (InputPattern(glob="runs/**/*.dat"),)}).tasks
    view = house.store.queries.task(task)
    assert view is not None
    assert view.spec.inputs == (files[0], files[2])


def test_a_pattern_of_the_catalogue_finds_no_copies_no_outputs_and_nothing_of_others(house: House) -> None:
    copied = File(name="ligo:f", size=1, checksum="")
    made = File(name="user.alice~ligo:tasks/flow/1/1/out", size=1, checksum="", task=1, job=1)
    replicas = [Replica(file="ligo:f", storage="north-disk", path=".copies/flow/ligo/f")]
    replicas += [Replica(file=file.name, storage="south-disk") for file in (copied, made)]
    create(house.store, copied, made, *replicas)

    def told(glob: str, scope: str = "") -> list[str] | str:
        outcome = house.submit({"inputs": (InputPattern(glob=glob, scope=scope),)})
        if outcome.refused:
            ((_, ((_, message), *_)),) = outcome.refused
            return message
        view = house.store.queries.task(outcome.tasks[0][1])
        assert view is not None
        return [f"{one.name} {one.replicas}" for one in view.spec.inputs if isinstance(one, InputFile)]

    assert told("**") == ["f ('south-disk',)"]
    assert told("**", "user.alice~ligo") == "no file matches '**' in the scope user.alice~ligo"
    assert "the scope 'atlas' is not yours" in told("**", "atlas")
