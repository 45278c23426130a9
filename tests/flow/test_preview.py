"""Would it run, where, and if not why: the same answer as after submission, without submitting."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pilotage.flow.calls.work import preview
from pilotage.flow.calls.work.preview import Planned, Preview
from pilotage.model.documents.serialization import from_json, to_document, to_json
from pilotage.model.documents.world import World
from pilotage.model.records.federation import GlobalShare, LoopConstants
from pilotage.model.records.work import InputFile, InputPattern, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.store import TaskPage
from pilotage.testing import federation, jobs, jobs_at, queue, task, world

from .house import ALICE, House

HOUSE = federation([queue("NEAR"), queue("FAR", site="AWAY", max_memory=2000)])
FILES = tuple(InputFile(name=f"f{number}", size=10, replicas=("HOME-DISK",)) for number in range(6))


def plan(state: World, *specs: dict[str, Any], owner: Identity | None = None) -> tuple[Planned, ...]:
    asked = [TaskSpec(**{"name": f"t{at}", "scouts": 0, **spec}) for at, spec in enumerate(specs)]
    return preview.preview(state, list(enumerate(asked)), owner).tasks


def test_each_task_is_told_by_index_and_name_why_it_would_go_where() -> None:
    first, second = plan(world(HOUSE), {"jobs": 3}, {"ram": 9000, "queues": ("FAR",)})
    assert (first.index, first.name, first.jobs) == (0, "t0", 3)
    assert sum(sum(choice.placed.values()) for choice in first.choices) == 3
    (choice,) = second.choices
    assert (choice.task, choice.placed) == (2, {})
    assert {(item.rule, item.queues) for item in choice.refusals} == {("B2", ("NEAR",)), ("B15", ("FAR",))}


def test_the_worlds_own_work_counts_and_is_not_decided_about() -> None:
    others = task(7, ram=50)
    state = world(HOUSE, others, jobs=jobs(others, 5), job_counts=jobs_at("NEAR", activated=19))
    (planned,) = plan(state, {"jobs": 30, "ram": 5000})
    (choice,) = planned.choices
    assert choice.placed == {"NEAR": 1}
    assert len(choice.jobs) == 30, "29 would be pending for want of room"
    assert "7" not in to_json(preview.preview(state, [], ALICE)).decode().partition("tasks")[2]


def test_inputs_lie_where_the_task_says() -> None:
    (planned,) = plan(world(HOUSE), {"inputs": FILES, "files_per_job": 4})
    assert planned.jobs == 2
    for choice in planned.choices:
        factors = dict(zip(choice.candidates.queues, choice.candidates.factors["B33"], strict=True))
        assert factors["NEAR"] == 2
        assert factors["FAR"] < 1


def test_scouts_are_told_beside_the_jobs_that_follow_them() -> None:
    spec = {"jobs": 30, "scouts": 5, "command": ("run",), "nucleus": "HOME"}
    (planned,) = plan(world(HOUSE), spec)
    assert {choice.job_kind: len(choice.jobs) + choice.left for choice in planned.choices} == {
        "scout": 5,
        "normal": 25,
    }
    (scouts,) = (choice for choice in planned.choices if choice.job_kind == "scout")
    assert scouts.candidates.queues == ("NEAR",)


def test_of_a_large_task_no_more_is_planned_than_a_pass_takes() -> None:
    house = replace(HOUSE, loops=LoopConstants(batch=100))
    (planned, files) = plan(world(house), {"jobs": 10_000_000}, {"inputs": FILES})
    assert (planned.jobs, files.jobs) == (100, 6)
    (scouted,) = plan(world(house), {"jobs": 10_000_000, "scouts": 60, "command": ("run",)})
    assert [choice.job_kind for choice in scouted.choices] == ["scout", "normal"]


def test_a_task_without_an_owner_is_of_its_shares_vo() -> None:
    closed = replace(
        federation([queue("OPEN"), queue("CMS", vos=("cms",))]),
        shares=(GlobalShare(name="default"), GlobalShare(name="top", vo="cms")),
    )
    state = world(closed)
    fits = [planned.choices[0].candidates.queues for planned in plan(state, {}, {"share": "top"})]
    assert [set(queues) for queues in fits] == [{"OPEN"}, {"CMS", "OPEN"}]
    (mine,) = plan(state, {}, owner=Identity(name="ada", vo="cms"))
    assert set(mine.choices[0].candidates.queues) == {"CMS", "OPEN"}


def test_the_same_world_and_tasks_give_the_same_bytes() -> None:
    specs = [(0, TaskSpec(name="a", jobs=40, inputs=())), (1, TaskSpec(name="b", inputs=FILES))]
    found = preview.preview(world(HOUSE), specs, None)
    again = preview.preview(from_json(World, to_json(world(HOUSE))), specs, None)
    assert to_json(again) == to_json(found)
    assert from_json(Preview, to_json(found)) == found


def test_what_is_planned_is_what_happens_after_submission(house: House) -> None:
    specs: list[dict[str, Any]] = [{"jobs": 7, "ram": 500}, {"jobs": 2, "priority": 900}]
    tasks = [TaskSpec(**{"name": "t", "scouts": 0, **spec}) for spec in specs]
    found, refused = preview.run(house.runtime, enumerate(tasks), ALICE)
    assert refused == []
    assert not house.store.task_lists.page(TaskPage(limit=10))
    for planned, spec in zip(found.tasks, specs, strict=True):
        id_ = house.task(**spec)
        house.take("broker")
        (choice,) = house.store.queries.task_choices(id_)
        assert choice.placed == planned.choices[0].placed
        assert choice.candidates.queues == planned.choices[0].candidates.queues


def test_patterns_are_looked_up_and_tasks_with_faults_refused(house: House, tmp_path: Path) -> None:
    (tmp_path / "north" / "a.dat").write_text("data")
    foreign = house.task(owner=Identity(name="bob", vo="ligo"))
    output = InputFile(name=f"tasks/flow/{foreign}/1/out", size=1, replicas=("north-disk",))
    before = to_document(house.store.snapshots.whole(house.now, 1))
    tasks = [
        TaskSpec(name="stolen", inputs=(output,)),
        TaskSpec(name="found", inputs=(InputPattern(storages=("north-disk",), glob="*.dat"),)),
        TaskSpec(name="lost", nucleus="nowhere"),
    ]
    found, refused = preview.run(house.runtime, enumerate(tasks), ALICE)
    assert [(planned.index, planned.jobs) for planned in found.tasks] == [(1, 1)]
    assert [(index, [field for field, _ in faults]) for index, faults in refused] == [
        (0, ["inputs"]),
        (2, ["nucleus"]),
    ]
    assert to_document(house.store.snapshots.whole(house.now, 1)) == before


def test_nothing_is_told_of_others_work(house: House) -> None:
    bob = Identity(name="bob", vo="ligo")
    (house.place / "north" / "theirs.dat").write_text("data")
    house.submit(
        {"name": "hidden", "inputs": (InputPattern(storages=("north-disk",), glob="*.dat"),)}, owner=bob
    )
    house.task(owner=bob, name="hidden-too", jobs=3)
    found, _ = preview.run(house.runtime, [(0, TaskSpec(name="mine"))], ALICE)
    text = to_json(found).decode()
    assert "hidden" not in text
    assert "bob" not in text
    assert "theirs" not in text
    assert sum(len(choice.jobs) + choice.left for planned in found.tasks for choice in planned.choices) == 1
