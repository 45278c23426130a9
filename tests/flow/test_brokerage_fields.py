"""No field of a task is accepted that its brokerage ignores without a word."""

from dataclasses import fields, replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from pilotage.federation import brokerage_fields
from pilotage.flow.calls.work import sure_waits
from pilotage.model.records.spec import TaskSpec
from pilotage.model.records.states import JobState
from pilotage.model.rules.plugins import BROKERAGE_FIELDS
from pilotage.model.values.entry_point_groups import BROKERAGES
from pilotage.model.values.identity import Identity
from pilotage.policies.brokerage import plugin
from pilotage.policies.brokerage.production import Production

from .house import ALICE, House

STATIONS = {"stations": ("north",)}
ELSEWHERE = {"site_requirements": 'TARGET.Name == "south"'}
NOBODY = Identity(name="nobody")


class Silent(Production):
    """A brokerage that does not declare what it reads."""

    reads = None  # type: ignore[assignment]


def plugins(house: House, **chosen: str) -> None:
    named = {"" if vo == "others" else vo: name for vo, name in chosen.items()}
    house.store.save_federation(replace(house.store.federation(), plugins=named), "test")


@pytest.mark.parametrize("owner", [ALICE, NOBODY])
def test_the_plugin_of_the_empty_name_serves_every_vo_without_one(house: House, owner: Identity) -> None:
    plugins(house, others="matchmaking")
    task = house.task(owner, jobs=8, **ELSEWHERE)
    house.take("advertise")
    house.take("broker")
    assert house.states(task) == {JobState.PENDING: 8}
    plugins(house, others="matchmaking", ligo="production")
    refused = house.submit({"command": ("true",), **ELSEWHERE}, owner=owner).refused
    assert bool(refused) == (owner is ALICE)


@pytest.mark.parametrize(
    ("brokerage", "asked", "reader"),
    [
        ("production", STATIONS, "matchmaking"),
        ("production", {"site_requirements": "TARGET.Cpus > 1"}, "matchmaking"),
        ("production", {"site_rank": "TARGET.Cpus"}, "matchmaking"),
        ("matchmaking", {"binding": "late"}, "production"),
        ("matchmaking", {"work_disk": 5.0, "scouts": 2}, "production"),
    ],
)
def test_a_field_that_the_brokerage_does_not_read_is_refused(
    house: House, brokerage: str, asked: dict[str, Any], reader: str
) -> None:
    ((_, faults),) = house.submit({"command": ("true",), "brokerage": brokerage, **asked}).refused
    ((field, words),) = faults
    assert (field, field in asked) == (next(iter(asked)), True)
    assert words.startswith(f"is set, and the brokerage '{brokerage}', which decides about this task,")
    assert words.endswith(f"leave it out, or ask for `brokerage: {reader}`")
    assert not house.submit({"command": ("true",), "brokerage": reader, **asked}).refused


def test_early_binding_is_what_matchmaking_does(house: House) -> None:
    assert not house.submit({"command": ("true",), "brokerage": "matchmaking", "binding": "early"}).refused


def test_a_brokerage_that_declares_nothing_is_warned_of(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint(name="silent", value=f"{__name__}:Silent", group=BROKERAGES)
    monkeypatch.setattr(brokerage_fields, "brokerages", lambda: frozenset({"silent"}))
    for module in (brokerage_fields, plugin):
        monkeypatch.setattr(module, "entry_points", lambda **_: [point])
    house.store.save_federation(replace(house.store.federation(), plugins={"ligo": "silent"}), "test")
    asked = {"command": ("true",), "walltime": 60.0, **STATIONS, "max_cores": 4}
    ((_, task),) = house.submit(asked).tasks
    assert "the brokerage 'silent' does not declare whether it reads stations, max_cores" in (
        sure_waits.of_submitted(house.runtime, [task])
    )


def test_the_fields_for_brokerages_are_fields_of_tasks() -> None:
    assert {one.name for one in fields(TaskSpec)} > BROKERAGE_FIELDS
