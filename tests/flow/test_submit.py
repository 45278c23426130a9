"""Tasks are accepted or refused one by one, their patterns resolved to files."""

from dataclasses import replace

import pytest

from pilotage.flow.calls.work.submit import SubmissionOutcome, submit
from pilotage.model.records.federation import Storage
from pilotage.model.records.work import InputFile, InputPattern, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.store import TaskPage

from .house import ALICE, House


def file(name: str, size: int) -> InputFile:
    """A file in the north."""
    return InputFile(name=name, size=size, replicas=("north-disk",))


def test_a_pattern_becomes_files_with_size_checksum_and_all_storages_that_hold_them(house: House) -> None:
    for site, name, data in (("north", "a", b"aa"), ("north", "b", b"b"), ("south", "a", b"aa")):
        (house.place / site / name).write_bytes(data)
    task = house.task(inputs=(InputPattern(storages=("north-disk", "south-disk"), glob="*"),))
    found = house.store.queries.task(task)
    assert found is not None
    assert found.spec.inputs == (
        InputFile(
            name="a",
            size=2,
            checksum="adler32:012500c3",
            replicas=("north-disk", "south-disk"),
            scope="ligo",
        ),
        InputFile(name="b", size=1, checksum="adler32:00630063", replicas=("north-disk",), scope="ligo"),
    )


def test_copies_that_differ_are_refused_with_their_places(house: House) -> None:
    (house.place / "north" / "a").write_bytes(b"one")
    (house.place / "south" / "a").write_bytes(b"two")
    submitted = house.submit({"inputs": (InputPattern(storages=("north-disk", "south-disk"), glob="a"),)})
    assert submitted.tasks == []
    ((index, ((field, message),)),) = submitted.refused
    assert (index, field) == (0, "inputs[0]")
    assert "its copies at north-disk, south-disk differ" in message


def test_a_pattern_without_files_and_an_unknown_storage_are_refused_by_field(house: House) -> None:
    submitted = house.submit(
        {"inputs": (InputPattern(storages=("north-disk",), glob="*.dat"),)},
        {"inputs": (InputPattern(storages=("nowhere",), glob="*"),)},
        {},
    )
    assert [index for index, _ in submitted.tasks] == [2]
    messages = [faults[0] for _, faults in submitted.refused]
    assert messages == [
        ("inputs[0]", "no file matches '*.dat' on north-disk"),
        ("inputs[0]", "there is no storage 'nowhere'; known are north-disk, south-disk"),
    ]


def test_all_faults_of_a_task_are_told_in_one_round_whatever_finds_them(house: House) -> None:
    """Inputs that are not found, contradicting fields, unknown references, and files of others' scopes."""
    inputs = (
        InputPattern(storages=("north-disk",), glob="*.dat"),
        InputPattern(storages=("nowhere",), glob="*"),
        InputFile(name="f", size=1, replicas=("gone",)),
    )
    wrong = {"inputs": inputs, "nucleus": "atlantis", "queues": ("nope",), "cores": 4, "max_cores": 1}
    submitted = house.submit({**wrong, "share": "none", "brokerage": "guess"})
    ((_, faults),) = submitted.refused
    told = ("inputs[0]", "inputs[1]", "inputs[2].replicas[0]", "nucleus", "queues[0]", "max_cores")
    assert sorted(field for field, _ in faults) == sorted([*told, "share", "brokerage"])


def test_a_file_known_to_be_otherwise_refuses_only_the_task_that_says_so(house: House) -> None:
    def reading(size: int) -> dict[str, object]:
        return {"inputs": (InputFile(name="f", size=size, replicas=("north-disk",)),)}

    assert len(house.submit(reading(5)).tasks) == 1
    submitted = house.submit(reading(5), reading(6))
    assert [index for index, _ in submitted.tasks] == [0]
    assert [index for index, _ in submitted.refused] == [1]


@pytest.mark.parametrize("wrong", [{"queues": ("nowhere",)}, {"inputs": (file("f", 6),)}])
def test_of_a_whole_submission_nothing_is_recorded_where_a_task_is_refused(
    house: House, wrong: dict[str, object]
) -> None:
    house.submit({"inputs": (file("f", 5),)}, owner=replace(ALICE, name="bob"))
    specs = [TaskSpec(**{"name": "t", **spec}) for spec in ({}, {"inputs": (file("g", 1),)}, wrong)]  # type: ignore[arg-type]
    submitted = submit(house.runtime, specs, ALICE, whole=True)
    assert (submitted.tasks, [index for index, _ in submitted.refused]) == ([], [2])
    assert len(house.store.task_lists.page(TaskPage(limit=10))) == 1
    assert len(house.submit({"inputs": (file("g", 2),)}).tasks) == 1, "g is not known yet"
    assert len(submit(house.runtime, specs[:1], ALICE, whole=True).tasks) == 1


def test_only_their_owner_s_tasks_read_outputs(house: House) -> None:
    made = house.task()
    other = Identity(name="bob", vo="ligo")

    def reading(name: str) -> dict[str, object]:
        return {"inputs": (InputFile(name=name, size=1, replicas=("north-disk",)),)}

    assert house.submit(reading(f"tasks/flow/{made}/1/o")).refused == []
    for name in (
        f"tasks/flow/{made}/1/o",
        "tasks/flow/99/1/o",
        "tasks/flow/x/1/o",
        "tasks/flow",
        "tasks/other/1/1/o",
    ):
        ((_, faults),) = house.submit(reading(name), owner=other).refused
        assert faults == [("inputs", f"{name} is not an output of a task of yours")]


@pytest.mark.parametrize("glob", ["tasks/flow/{}/**", "tasks/**", "tasks/flow/*/1/o", "tasks/flow/{}*/o"])
def test_outputs_of_others_are_not_even_listed(
    house: House, monkeypatch: pytest.MonkeyPatch, glob: str
) -> None:
    made = house.task()
    pattern = InputPattern(storages=("north-disk",), glob=glob.format(made))
    listed: list[str] = []

    def scan(storage: Storage, glob: str, seconds: float) -> list[InputFile]:
        listed.append(glob)
        return []

    monkeypatch.setattr(house.runtime.deliveries, "scan", scan)
    for owner in (Identity(name="bob", vo="ligo"), ALICE):
        ((_, ((field, reason),)),) = house.submit({"inputs": (pattern,)}, owner=owner).refused
        own = owner is ALICE and glob == "tasks/flow/{}/**"
        assert field == ("inputs[0]" if own else "inputs[0].glob")
        assert ("no file matches" if own else "it must begin with tasks/flow/NUMBER/, of a task of") in reason
        assert listed == ([pattern.glob] if own else [])


def test_one_small_request_cannot_ask_for_more_than_its_quota(house: House) -> None:
    """Two hundred tasks of 100,000 jobs fit into 9 kB."""
    specs = [{"jobs": 100_000} for _ in range(200)]
    submitted = house.submit(*specs)
    assert len(submitted.tasks) == 100
    assert {faults[0][0] for _, faults in submitted.refused} == {"jobs"}
    assert "above the quota of 10000000" in submitted.refused[0][1][0][1]
    assert house.submit({"jobs": 1}).refused, "what was accepted before counts"
    assert house.submit({"jobs": 1}, owner=Identity(name="bob", vo="ligo")).refused == []


@pytest.mark.parametrize("whole", [False, True])
def test_requests_side_by_side_pass_no_quota(house: House, whole: bool) -> None:
    """Another request takes the room after this one was examined, and before it is recorded."""
    rivals = [{"jobs": 100_000}] * 99

    def seeds() -> int:
        if rivals:
            submitting, rivals[:] = [*rivals], []
            assert len(house.submit(*submitting).tasks) == 99
        return 1

    house.runtime.seeds = seeds
    specs = [TaskSpec(name="t", scouts=0, jobs=60_000) for _ in range(2)]
    submitted = submit(house.runtime, specs, ALICE, whole=whole)
    assert [index for index, _ in submitted.tasks] == ([] if whole else [0])
    ((index, ((field, message),)),) = submitted.refused
    assert (index, field) == (1, "jobs")
    assert message.startswith("user alice would have 10020000 jobs that have not ended, above the quota")


def test_a_repeated_request_that_fills_the_quota_is_one_task_however_they_meet(house: House) -> None:
    specs = [TaskSpec(name="t", scouts=0, jobs=100_000) for _ in range(100)]
    first: list[SubmissionOutcome] = []

    def seeds() -> int:
        if not first:
            first.append(SubmissionOutcome())
            first[0] = submit(house.runtime, specs, ALICE, whole=True, submission="key")
        return 1

    house.runtime.seeds = seeds
    assert submit(house.runtime, specs, ALICE, whole=True, submission="key") == first[0]
    assert len(first[0].tasks) == 100
