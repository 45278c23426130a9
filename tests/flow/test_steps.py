"""A step is declared once: its module, its loop, its wake-ups, its plan and its place in lists agree."""

from pathlib import Path

import pytest

from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.cli.planning.deciding import step_names
from pilotage.flow import steps
from pilotage.flow.planning import idle_reasons, plan
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always, take
from pilotage.flow.steps import STEPS
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.model.records.states import TRANSITIONS
from pilotage.server import process as server

from .house import House


def test_every_module_declares_the_step_of_its_name() -> None:
    modules = {path.stem for path in Path(steps.__path__[0]).glob("*.py")} - {"__init__"}
    assert {step.name for step in STEPS} == modules == set(step_names())
    assert len({step.place for step in STEPS}) == len(STEPS)
    assert [step.name for step in STEPS if step.has_loop] == list(server.LOOPS)


def test_steps_are_woken_by_states_that_records_can_come_into() -> None:
    reached = {(kind, target) for kind, _, target in TRANSITIONS}
    for step in STEPS:
        assert step.wakes_on <= reached, step.name


def test_every_step_decides_from_a_saved_world_and_says_why_it_changes_nothing(house: House) -> None:
    house.take("advertise")
    world = house.store.snapshots.whole(house.now, 1)
    for step in STEPS:
        assert plan(step.name, world).changes == ()
        assert all(idle_reasons(step.name, world)), step.name


def test_a_policy_that_fails_keeps_only_its_own_records_waiting(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(world: World) -> Decision:
        raise RuntimeError(f"cannot decide at {world.time:g}")

    acted: list[str] = []

    def works(world: World) -> Decision:
        acted.append("works")
        return Decision(step="test", time=world.time, seed=world.seed)

    step = Step(
        name="test",
        place=0,
        summary="Fail, then work.",
        reads=steps.step("split").reads,
        phases=always(Phase(actor="first", decide=fails), Phase(actor="second", decide=works)),
        idle=lambda _: iter(()),
    )
    assert take(step, house.runtime, house.runtime.begin(10)) == 0
    assert acted == ["works"]
    assert "the policy of first failed" in caplog.text


def test_two_runtimes_of_one_process_share_nothing(house: House, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Runtime(house.store, STEPS, load=lambda _: house.element, movers=InstalledMovers)  # type: ignore[arg-type,return-value]
    other.wakeups.wake("broker")
    assert other.wakeups.is_woken("broker")
    assert not house.runtime.wakeups.is_woken("broker")
    assert other.brokerages is not house.runtime.brokerages
    assert other.matching is not house.runtime.matching
