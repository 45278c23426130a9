"""A decision that does not end is ended: its step, and the thread of whoever asked, go on."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pilotage import request_budget
from pilotage.flow.calls.work import preview
from pilotage.flow.loops import time_limit
from pilotage.flow.loops.set_aside import FIRST_COSTLY_PAUSE, MOST_SLOW, SetAside
from pilotage.flow.loops.time_limit import OutOfTime, TimeLimit
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.policies import brokerage
from pilotage.policies.brokerage.production import Production
from pilotage.server.api.work.explanations import explained_task

from .house import House

LIMIT = 0.4
BOB, EVE, DAN = (Identity(name=name, vo="cms") for name in ("bob", "eve", "dan"))
WAITING, PLACED = {JobState.DEFINED: 1}, {JobState.ACTIVATED: 1}


def _spins() -> None:
    while True:
        pass


def _swallows() -> None:
    while True:
        with suppress(Exception):
            time.sleep(0.001)


def _computes_long() -> None:
    for number in range(10**12):
        float(number)


ENDLESS: dict[str, Callable[[], None]] = {
    "while True": _spins,
    "except Exception": _swallows,
    "a long loop": _computes_long,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_call_that_does_not_end_is_ended_and_its_thread_is_gone(name: str) -> None:
    before = threading.active_count()
    limit, begun = TimeLimit(0.2), time.monotonic()
    with pytest.raises(OutOfTime, match=r"did not decide within 0.2 s"):
        limit.call(ENDLESS[name])
    assert time.monotonic() - begun < 5
    assert limit.stuck == 0
    assert threading.active_count() <= before  # a thread of another test may end meanwhile


def test_a_call_that_waits_outside_of_python_is_left_behind_and_counted() -> None:
    limit, released = TimeLimit(0.1), threading.Event()
    with pytest.raises(OutOfTime):
        limit.call(lambda: released.wait(60))
    assert limit.stuck == 1
    released.set()
    while limit.stuck:
        time.sleep(0.01)


def test_what_a_call_returns_and_raises_is_handed_on() -> None:
    limit = TimeLimit(5)
    assert limit.call(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        limit.call(lambda: 1 // 0)


def test_no_import_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is half imported is broken for good."""
    (tmp_path / "slow_module.py").write_text("import time\nbegun = True\ntime.sleep(0.5)\nwhole = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    def imports() -> object:
        return import_module("slow_module").whole

    assert TimeLimit(0.1).call(imports) is True
    monkeypatch.setattr(time_limit, "LONGEST_IMPORT", 0.0)
    monkeypatch.delitem(sys.modules, "slow_module")
    with pytest.raises(OutOfTime):
        TimeLimit(0.1).call(imports)
    assert import_module("slow_module").whole is True


class Endless:
    """A brokerage from outside that does not end for tasks with a name."""

    def __init__(self) -> None:
        self.calls = 0
        self.usual = Production()

    def decide(self, state: World) -> Decision:
        self.calls += 1
        if any(one.spec.name == "endless" for one in state.tasks):
            _spins()
        return self.usual.decide(state)


@pytest.fixture
def plugin(house: House, monkeypatch: pytest.MonkeyPatch) -> Endless:
    """The brokerage of a VO."""
    made, usual = Endless(), brokerage.load
    monkeypatch.setattr(
        brokerage, "load", lambda name, options: made if name == "odd" else usual(name, options)
    )
    house.runtime.time_limit = TimeLimit(LIMIT)
    house.runtime.set_aside = SetAside(house.store)
    house.store.save_federation(replace(house.store.federation(), plugins={"cms": "odd"}), "test")
    return made


def _task(house: House, owner: Identity = BOB, **spec: Any) -> int:
    return house.task(owner=owner, **spec)


def test_one_task_for_which_a_plugin_does_not_end_keeps_no_other_waiting(
    house: House, plugin: Endless
) -> None:
    others = [_task(house, owner) for owner in (BOB, EVE, DAN)]
    bad = _task(house, EVE, name="endless")
    ours = house.task()
    house.take("broker")
    assert [house.states(id_) for id_ in (*others, ours)] == [PLACED] * 4
    assert house.states(bad) == WAITING
    (told,) = house.store.set_aside.everything()
    assert (told.subject, told.name) == ("task", str(bad))
    assert told.error.startswith("the brokerage 'odd' did not decide within")
    assert told.retry_at == house.now + FIRST_COSTLY_PAUSE


def test_passes_do_not_wait_again_for_what_is_set_aside(house: House, plugin: Endless) -> None:
    bad = _task(house, name="endless")
    house.take("broker")
    for _ in range(5):
        good, calls = _task(house), plugin.calls
        house.take("broker")
        assert house.states(good) == PLACED
        assert plugin.calls == calls + 1
    # Tried again, it is known: nothing is parted to find it.
    house.now += FIRST_COSTLY_PAUSE
    good, calls = _task(house), plugin.calls
    house.take("broker")
    assert (house.states(good), house.states(bad)) == (PLACED, WAITING)
    assert plugin.calls == calls + 2
    (told,) = house.store.set_aside.everything()
    assert (told.times, told.retry_at) == (2, house.now + 2 * FIRST_COSTLY_PAUSE)


def test_a_person_for_whose_tasks_a_plugin_takes_too_long_waits_and_others_do_not(
    house: House, plugin: Endless
) -> None:
    for _ in range(MOST_SLOW):
        _task(house, EVE, name="endless")
        house.take("broker")
    later, hers = _task(house, BOB), _task(house, EVE)
    calls = plugin.calls
    house.take("broker")
    assert (house.states(later), house.states(hers)) == (PLACED, WAITING)
    assert plugin.calls == calls + 1
    seen = house.store.queries.task(hers)
    assert seen is not None
    told = "\n".join(explained_task(house.runtime, seen, []).lines)
    assert "the brokerage 'odd' took too long for 2 tasks of this person" in told
    house.now += FIRST_COSTLY_PAUSE
    house.take("broker")
    assert house.states(hers) == PLACED


def test_a_plugin_that_ends_for_nobody_rests_as_a_whole_and_says_so(house: House, plugin: Endless) -> None:
    bad = [_task(house, owner, name="endless") for owner in (BOB, EVE)]
    ours = house.task()
    house.take("broker")
    assert house.states(ours) == PLACED
    calls, new = plugin.calls, _task(house, DAN, name="endless")
    house.take("broker")
    assert plugin.calls == calls, "it rests"
    seen = house.store.queries.task(new)
    assert seen is not None
    told = "\n".join(explained_task(house.runtime, seen, []).lines)
    assert "the brokerage 'odd' took too long for tasks of 2 people" in told
    assert [house.states(id_) for id_ in bad] == [WAITING] * 2


def test_a_preview_of_such_a_task_is_answered_with_a_sentence(
    house: House, plugin: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [TaskSpec(name="endless"), TaskSpec(name="good", brokerage="production")]
    before = threading.active_count()
    found, refused = preview.run(house.runtime, enumerate(specs), BOB)
    assert [one.name for one in found.tasks] == ["good"]
    assert refused == [(0, [("", f"the brokerage 'odd' did not decide within {LIMIT:g} s")])]
    assert threading.active_count() <= before + 1, "one thread is kept for the next decision"


def test_a_decision_that_nobody_waits_for_is_ended() -> None:
    limit, begun, ended = TimeLimit(), threading.Event(), threading.Event()

    def decide() -> None:
        begun.set()
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    with request_budget.opened() as budget:

        def leave() -> None:
            begun.wait()
            budget.is_client_gone = True

        threading.Thread(target=leave).start()
        with pytest.raises(request_budget.ClientGone):
            limit.call(decide)
    assert ended.is_set()


def test_a_plugin_that_does_not_end_while_it_is_made_keeps_no_other_from_being_made(
    house: House, plugin: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = brokerage.load
    monkeypatch.setattr(
        brokerage, "load", lambda name, options: _spins() if name == "odd" else usual(name, options)
    )
    bad, ours = _task(house), house.task()
    house.take("broker")
    assert (house.states(bad), house.states(ours)) == (WAITING, PLACED)
    # A decision still under way in another thread holds no lock.
    released = threading.Event()
    monkeypatch.setattr(
        brokerage, "load", lambda name, options: released.wait(60) if name == "odd" else usual(name, options)
    )
    stuck = threading.Thread(target=lambda: house.runtime.brokerages.get("odd", {}))
    stuck.start()
    house.runtime.brokerages.get("production", {"off": ["B24"]})
    released.set()
    stuck.join()
