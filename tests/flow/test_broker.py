"""Plugins decide on their own tasks; what waits for its hour goes on as soon as it can (B37)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pilotage.federation.worlds import check_world
from pilotage.flow.planning import plan
from pilotage.flow.steps.broker import plugins
from pilotage.model.documents.decision import Decision, Forget
from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import InputFile, Replica
from pilotage.model.values.identity import Identity
from pilotage.policies import brokerage
from tests.reading import BROKERED, world_of

from .house import FakeElement, House

J = JobState


def test_a_task_that_fits_nowhere_waits_an_hour_and_is_tried_again(house: House) -> None:
    house.federate(max_memory=1000)
    task = house.task(ram=4000)
    house.take("broker")
    assert house.states(task) == {J.PENDING: 1}
    house.now += 3599
    house.take("watch")
    assert house.states(task) == {J.PENDING: 1}
    house.now += 1
    house.take("watch")
    assert house.states(task) == {J.DEFINED: 1}


def test_its_hour_ends_early_when_a_queue_would_take_it(house: House) -> None:
    house.federate(max_memory=1000)
    task = house.task(ram=4000)
    house.take("broker")
    assert house.take("lift") == 0
    house.federate(max_memory=4000)
    assert house.take("lift") == 1
    house.take("broker")
    assert house.states(task) == {J.ACTIVATED: 1}


def test_a_saved_world_that_was_changed_shows_where_pending_jobs_would_go(house: House) -> None:
    house.federate(max_memory=1000)
    task = house.task(ram=4000, walltime=600)
    house.take("broker")
    saved = from_json(World, to_json(house.store.snapshots.whole(house.now, 1)))
    assert check_world(saved) == []
    same = plan("broker", saved)
    assert (same.changes, [choice.placed for choice in same.choices]) == ((), [{}]), "why not is told"
    roomy = replace(saved.federation.queues[0], max_memory=4000)
    decision = plan("broker", replace(saved, federation=replace(saved.federation, queues=(roomy,))))
    assert [(move.source, move.target, move.changes) for move in decision.moves] == [
        (J.PENDING, J.ACTIVATED, {"queue": "north-queue", "wake_at": None}),
    ]
    house.federate(max_memory=4000)
    assert house.store.commit(decision, "test").handed_back == 0
    assert house.states(task) == {J.ACTIVATED: 1}, "the decision is one that holds"


def test_a_plugin_that_is_not_installed_keeps_only_its_own_tasks_waiting(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = house.task(owner=Identity(name="bob", vo="cms"))
    placed = house.task()
    house.store.save_federation(replace(house.store.federation(), plugins={"cms": "gone"}), "test")
    assert plugins(world_of(house.store, BROKERED, house.now, 1, 10)) == ["gone", "production"]
    house.take("broker")
    assert (house.states(stuck), house.states(placed)) == ({J.DEFINED: 1}, {J.ACTIVATED: 1})
    assert "tasks of brokerage gone are left to servers that have it" in caplog.text


def test_a_plugin_is_made_once_and_anew_when_its_options_change(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def load(name: str, options: Mapping[str, Any]) -> brokerage.Brokerage:
        made.append(dict(options))
        return brokerage.plugin.load(name, options)

    monkeypatch.setattr(brokerage, "load", load)
    house.task()
    house.take("broker")
    house.task()
    house.take("broker")
    assert made == [{}]
    changed = replace(house.store.federation(), plugin_options={"production": {"off": ["B24"]}})
    house.store.save_federation(changed, "test")
    house.task()
    house.take("broker")
    assert made == [{}, {"off": ["B24"]}]


def test_a_job_at_a_queue_that_left_the_federation_finds_another(house: House) -> None:
    task = house.task()
    house.take("broker")
    house.federate(name="other-queue")
    house.take("watch")
    house.take("broker")
    assert house.states(task) == {J.ACTIVATED: 1}
    assert {job.queue for job in house.store.queries.jobs(task, None, 10)} == {"other-queue"}


def test_a_task_whose_input_was_lost_fails_with_the_file_s_name(house: House) -> None:
    replicas = (Replica(file="ligo:data/f", storage="north-disk"),)
    task = house.task(inputs=(InputFile(name="data/f", size=1, replicas=("north-disk",)),))
    forget = Decision(step="test", time=house.now, seed=1, changes=(Forget(replicas=replicas),))
    house.store.commit(forget, "test")
    house.take("broker")
    house.take("finish")
    view = house.store.queries.task(task)
    assert view is not None
    assert view.state is TaskState.FAILED
    assert "input ligo:data/f is gone" in view.error


def test_b26_a_queue_where_pilots_fail_is_refused_until_an_hour_has_passed(house: House) -> None:
    house.element = element = FakeElement()
    element.refusal = "no such account"
    task = house.task(jobs=50, priority=900)
    house.take("broker")
    house.take("provision")
    late = house.task()
    house.take("broker")
    assert house.states(late) == {J.PENDING: 1}
    (choice,) = house.store.queries.task_choices(late, 1)
    assert {refusal.rule for refusal in choice.refusals} == {"B26"}
    house.now += 3601
    house.take("lift")
    house.take("broker")
    assert (house.states(task), house.states(late)) == ({J.ACTIVATED: 50}, {J.ACTIVATED: 1})
