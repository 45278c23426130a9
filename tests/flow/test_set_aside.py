"""One record that a policy fails at, or that the store refuses, keeps nothing else from going on."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest

from pilotage.flow import steps
from pilotage.flow.loops.isolation import MOST_TRIALS, POLICY, isolate
from pilotage.flow.loops.set_aside import FIRST_PAUSE, SetAside
from pilotage.flow.step import Phase, Step, always, take
from pilotage.flow.steps import STEPS
from pilotage.model.documents.decision import Create, Decision, Move, Touch
from pilotage.model.documents.subjects import QUEUE, SUBJECTS, TASK, Key
from pilotage.model.documents.world import TaskQueue, World
from pilotage.model.records.data import Copy
from pilotage.model.records.states import JobState, PilotState, TransferState
from pilotage.model.values.identity import Identity
from pilotage.policies import brokerage
from pilotage.policies.brokerage.plugin import PluginError
from pilotage.policies.brokerage.soundness import check
from pilotage.policies.tasks import splitting
from pilotage.server.api.work.explanations import explained_task
from pilotage.testing.records import job, pilot, requirements, task, transfer
from pilotage.testing.worlds import federation, queue, world
from tests.reading import the_world

from .house import House

BOB = Identity(name="bob", vo="ligo")
LOOPED = [step for step in STEPS if step.has_loop]


def _full_world() -> World:
    """Two of each subject."""
    ids = (1, 2)
    return world(
        federation([queue("Q"), queue("R", "AWAY")]),
        tasks=[task(id_) for id_ in ids],
        jobs=[job(id_, JobState.ACTIVATED, of=id_) for id_ in ids],
        transfers=[transfer(id_, TransferState.QUEUED) for id_ in ids],
        pilots=[pilot(id_, PilotState.RUNNING, queue=name) for id_, name in zip(ids, "QR", strict=True)],
        task_queues=[
            TaskQueue(queue=name, requirements=requirements(cores=cores), jobs=1, priority=1)
            for name, cores in (("Q", 1), ("R", 2))
        ],
        copies=[
            Copy(
                file=f"s:f{id_}",
                storage="HOME-DISK",
                path="p",
                size=1,
                used=0.0,
                wanted=False,
                elsewhere=(),
            )
            for id_ in ids
        ],
    )


def _nothing(state: World) -> Decision:
    return Decision(step="test", time=state.time, seed=state.seed)


def test_every_step_says_what_its_policies_decide_about() -> None:
    assert all(step.subjects for step in LOOPED)


@pytest.mark.parametrize("step", LOOPED, ids=lambda step: step.name)
def test_in_every_step_one_bad_record_keeps_no_other_from_going_on(step: Step, house: House) -> None:
    state = replace(_full_world(), time=house.now)
    for kind in step.subjects:
        bad, good = kind.keys(state)[:2]
        seen: list[list[Key]] = []

        def poisoned(
            given: World, kind: Any = kind, bad: Key = bad, seen: list[list[Key]] = seen
        ) -> Decision:
            keys = kind.keys(given)
            if bad in keys:
                raise RuntimeError(f"cannot stand {bad}")
            seen.append(keys)
            return _nothing(given)

        poison = replace(
            step,
            prepare=None,
            reads=the_world(state),
            bounds=None,
            phases=always(Phase(actor="test", decide=poisoned)),
        )
        runtime = house.runtime
        runtime.set_aside = SetAside(house.store)
        take(poison, runtime, runtime.begin(10))
        assert seen[-1] == [good], f"{step.name}: the other {kind.name} goes on in the same pass"
        (told,) = house.store.set_aside.everything()
        assert (told.step, told.subject, told.name) == (step.name, kind.name, str(bad))
        assert f"cannot stand {bad}" in told.error
        house.store.set_aside.replace([told], ())


@pytest.mark.parametrize("kind", SUBJECTS.values(), ids=SUBJECTS)
def test_a_world_without_a_subject_still_has_the_others(kind: Any) -> None:
    state = _full_world()
    first, *others = kind.keys(state)
    left = kind.without(state, {first})
    assert kind.keys(left) == others
    assert kind.keys(kind.without(state, set(kind.keys(state)))) == []


def _failing_at(bad: Collection[int]) -> Any:
    def policy(state: World) -> Decision:
        if any(one.id in bad for one in state.tasks):
            raise ValueError("no")
        return _nothing(state)

    return policy


def _of_tasks(owners: Iterable[Identity]) -> World:
    return world(federation(), tasks=[task(number, owner=owner) for number, owner in enumerate(owners, 1)])


def test_a_thousand_bad_tasks_of_one_person_are_told_apart_with_few_trials() -> None:
    bad = set(range(1, 1001))
    state = _of_tasks([BOB] * 1000 + [Identity(name=f"user{n}") for n in range(100)])
    asked = 0

    def policy(given: World) -> Decision:
        nonlocal asked
        asked += 1
        return _failing_at(bad)(given)  # type: ignore[no-any-return]

    found = isolate(policy, "test", ValueError("no"), state, [TASK])
    assert found.decision is not None
    assert {fault.key for fault in found.faults} == bad
    assert asked <= 2 * MOST_TRIALS


def test_what_fails_at_tasks_of_several_people_may_be_a_queue_but_never_for_one_person() -> None:
    def policy(given: World) -> Decision:
        if given.tasks and any(one.name == "R" for one in given.federation.queues):
            raise ZeroDivisionError
        return _nothing(given)

    both = replace(_of_tasks([BOB, Identity(name="eve")]), federation=federation([queue("Q"), queue("R")]))
    found = isolate(policy, "test", ZeroDivisionError(), both, [TASK, QUEUE])
    assert [(fault.subject, fault.key) for fault in found.faults] == [("queue", "R")]
    one = replace(both, tasks=tuple(replace(item, owner=BOB) for item in both.tasks))
    found = isolate(policy, "test", ZeroDivisionError(), one, [TASK, QUEUE])
    assert {(fault.subject, fault.key) for fault in found.faults} == {("task", 1), ("task", 2)}


def test_a_policy_that_fails_with_nothing_to_decide_is_to_blame_itself() -> None:
    def policy(_: World) -> Decision:
        raise ValueError("always")

    found = isolate(policy, "me", ValueError("always"), _of_tasks([BOB]), [TASK])
    assert [(fault.subject, fault.key) for fault in found.faults] == [(POLICY, "me")]


def test_two_records_that_do_not_go_together_do_not_both_wait() -> None:
    def policy(given: World) -> Decision:
        if len(given.tasks) == 2:
            raise ValueError("one too many")
        return _nothing(given)

    found = isolate(policy, "me", ValueError("one too many"), _of_tasks([BOB, BOB]), [TASK])
    assert len(found.faults) == 1
    assert found.decision is not None


def _cannot_split(monkeypatch: pytest.MonkeyPatch, bad: int) -> None:
    split = splitting._part

    def part(task: Any, made: int, most: int) -> Any:
        if task.id == bad:
            raise RuntimeError("its jobs cannot be counted")
        return split(task, made, most)

    monkeypatch.setattr(splitting, "_part", part)


def test_a_task_that_cannot_be_split_is_named_tried_again_and_taken_by_a_mended_version(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = (id_ for _, id_ in house.submit({}, {}).tasks)
    with monkeypatch.context() as broken:
        _cannot_split(broken, bad)
        house.take("split")
        assert house.states(good) == {JobState.DEFINED: 1}
        seen = house.store.queries.task(bad)
        assert seen is not None
        told = "\n".join(explained_task(house.runtime, seen, []).lines)
        assert "set aside by step split" in told
        assert "its jobs cannot be counted" in told
        assert "when the federation changes" in told
        (record,) = house.store.set_aside.everything()
        house.take("split")
        assert house.store.set_aside.everything() == (record,), "not at each pass"
        house.now += FIRST_PAUSE
        house.take("split")
        (again,) = house.store.set_aside.everything()
        assert (again.times, again.since) == (2, record.since)
        assert again.retry_at == house.now + 2 * FIRST_PAUSE, "later each time"
    house.runtime.set_aside = SetAside(house.store)  # as after a restart
    house.take("split")
    assert house.states(bad) == {JobState.DEFINED: 1}
    assert house.store.set_aside.everything() == ()


def test_another_federation_lifts_what_was_set_aside(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, bad),) = house.submit({}).tasks
    with monkeypatch.context() as broken:
        _cannot_split(broken, bad)
        house.take("split")
    house.take("split")
    assert house.states(bad) == {}
    house.federate(max_memory=77)
    house.store.federation()
    house.take("split")
    assert house.states(bad) == {JobState.DEFINED: 1}


def test_tasks_that_are_set_aside_take_no_room_from_others_in_a_pass(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = {id_ for _, id_ in house.submit(*[{}] * 6).tasks}
    split = splitting._part
    monkeypatch.setattr(
        splitting, "_part", lambda task, *rest: 1 / 0 if task.id in stuck else split(task, *rest)
    )
    runtime, step = house.runtime, next(step for step in STEPS if step.name == "split")
    take(step, runtime, runtime.begin(6))
    ((_, good),) = house.submit({}).tasks
    take(step, runtime, runtime.begin(6))
    assert house.states(good) == {JobState.DEFINED: 1}


def test_a_plugin_that_returns_rubbish_concerns_its_tasks_alone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    rubbish: list[Any] = [None, 7, "x", Decision(step="x", time=0, seed=0)]
    usual = brokerage.load

    class Plugin:
        def decide(self, state: World) -> Any:
            return rubbish[-1]

    monkeypatch.setattr(
        brokerage, "load", lambda name, options: Plugin() if name == "odd" else usual(name, options)
    )
    odd = house.task(owner=Identity(name="bob", vo="cms"))
    house.store.save_federation(replace(house.store.federation(), plugins={"cms": "odd"}), "test")
    while rubbish:
        good = house.task()
        house.take("broker")
        assert house.states(good) == {JobState.ACTIVATED: 1}
        assert house.states(odd) == {JobState.DEFINED: 1}
        told = house.store.set_aside.of("task", str(odd))
        assert "odd" in told[0].error
        rubbish.pop()
        house.now += 3600


def _move(**changes: Any) -> Move:
    usual: dict[str, Any] = {
        "kind": "job",
        "ids": (1,),
        "source": JobState.DEFINED,
        "target": JobState.PENDING,
        "cause": "c",
        "changes": {"wake_at": 10.0},
    }
    return Move(**(usual | changes))


@pytest.mark.parametrize(
    "change",
    [
        _move(),  # no choice
        _move(ids=(2,)),
        _move(ids=("1",)),
        _move(ids=(1, 1)),
        _move(ids=None),
        _move(target=JobState.FINISHED),
        _move(kind="task"),
        _move(changes={"wake_at": float("nan")}),
        _move(changes={"wake_at": 10.0, "pilot": 3}),
        _move(target=JobState.ACTIVATED, changes={"queue": "elsewhere"}),
        Touch(kind="job", ids=(1,), changes={"queue": "Q"}),
        Create(records=(), cause="x"),
        object(),
    ],
)
def test_a_decision_that_cannot_hold_is_refused_before_it_is_committed(change: Any) -> None:
    state = world(federation(), task(1))
    decision = Decision(step="broker", time=state.time, seed=state.seed, changes=(change,))
    with pytest.raises(PluginError, match="'odd' returned no sound decision"):
        check("odd", decision, state)


def test_what_the_store_refuses_of_one_task_keeps_no_other_from_being_written(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that no column takes, such as a number beyond 64 bits, is known at the commit alone."""
    ids = [id_ for _, id_ in house.submit(*[{}] * 5).tasks]
    split = splitting._jobs

    def jobs(task: Any, *rest: Any) -> Any:
        made = split(task, *rest)
        return tuple(replace(one, priority=10**30) for one in made) if task.id == ids[2] else made

    monkeypatch.setattr(splitting, "_jobs", jobs)
    house.take("split")
    assert [bool(house.states(id_)) for id_ in ids] == [True, True, False, True, True]
    ((told),) = house.store.set_aside.everything()
    assert (told.subject, told.name) == ("task", str(ids[2]))


def test_what_follows_from_a_decision_may_fail_and_the_next_policy_decides(house: House) -> None:
    acted: list[str] = []

    def fails(*_: Any) -> None:
        raise RuntimeError("no")

    step = Step(
        name="test",
        place=0,
        summary="",
        reads=steps.step("split").reads,
        phases=lambda _, __: [
            Phase(actor="a", decide=_nothing, act=fails),
            Phase(actor="b", decide=_nothing, act=lambda *_: acted.append("b")),
        ],
        idle=lambda _: iter(()),
    )
    take(step, house.runtime, house.runtime.begin(10))
    take(replace(step, foresees=True), house.runtime, house.runtime.begin(10))
    assert acted == ["b", "b"]
