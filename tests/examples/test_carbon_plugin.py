"""The example plugin, installed as a package of its own: found, asked, explained, held to the contract."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from pilotage.explain.analysis import explain
from pilotage.explain.rendering import lines as text_of
from pilotage.federation.documents import write
from pilotage.model.documents.decision import Choice
from pilotage.model.documents.world import World
from pilotage.policies.brokerage import Brokerage, PluginOptionsError, load
from pilotage.policies.brokerage.contract import violations
from pilotage.testing import NOW, federation, jobs, queue, task, world
from tests.brokerage.test_production_properties import relaxed, worlds

pytestmark = pytest.mark.slow
"""To install the plugin takes a second of processor time, whichever test is the first."""

EXAMPLE = Path(__file__).parents[2] / "examples" / "carbon-plugin"
HOUR = int(NOW // 3600) % 24
COAL_BY_DAY = [100.0] * 24
COAL_BY_DAY[HOUR] = 700
OPTIONS = {"limit": 300, "intensity": {"HYDRO": 20, "GAS": 280, "COAL": COAL_BY_DAY}}
TABLE = {"intensity": OPTIONS["intensity"]}
HOUSE = federation([queue(f"{site}-Q", site=site) for site in ("GAS", "HYDRO", "COAL", "UNKNOWN")])


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the example was installed into from its sources, as pip installs any package."""
    place = tmp_path_factory.mktemp("installed")
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(place), str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture
def plugins(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example beside everything else that is installed."""
    monkeypatch.syspath_prepend(installed)


def choice_of(plugin: Brokerage, state: World) -> Choice:
    assert violations(plugin, state) == []
    (choice,) = plugin.decide(state).choices
    return choice


@pytest.mark.usefixtures("plugins")
def test_a_site_above_the_limit_at_this_hour_gets_nothing() -> None:
    plugin = load("carbon", OPTIONS)
    state = world(HOUSE, task())
    choice = choice_of(plugin, state)
    (refusal,) = choice.refusals
    assert (refusal.rule, refusal.name, refusal.queues) == ("X1", "carbon", ("COAL-Q",))
    assert (refusal.need, refusal.have, refusal.unit, refusal.mend) == (300, (700,), "g/kWh", "wait")
    later = choice_of(plugin, replace(state, time=NOW + 3600))
    assert "COAL-Q" in later.candidates.queues


@pytest.mark.usefixtures("plugins")
def test_greener_sites_weigh_more_and_unknown_ones_as_the_worst_that_pass() -> None:
    choice = choice_of(load("carbon", OPTIONS), world(HOUSE, task()))
    assert choice.candidates.queues == ("HYDRO-Q", "GAS-Q", "UNKNOWN-Q")
    assert choice.candidates.factors["X2"] == (300 / 320, 300 / 580, 0.5)
    assert explain(choice).decided_by == "X2"


@pytest.mark.usefixtures("plugins")
def test_the_check_and_the_factor_are_explained_as_all_others_are() -> None:
    refused = choice_of(
        load("carbon", {**OPTIONS, "limit": 10}), world(federation([queue("C", site="COAL")]), task())
    )
    lines = text_of(explain(refused))
    assert [" ".join(line.split()) for line in lines] == [
        "task 1, job 1: the only queue considered cannot take it",
        "carbon 1 queue need 10 g/kWh, best 700 the only obstacle there wait: a greener hour",
        "cheapest change: carbon, wait: a greener hour; opens 1 queue: C",
    ]
    placed = choice_of(load("carbon", OPTIONS), world(HOUSE, task()))
    assert "x X2 0.9375" in text_of(explain(placed))[1]


@pytest.mark.usefixtures("plugins")
def test_greenest_fills_the_greenest_site_first_whatever_its_weight() -> None:
    house = replace(
        HOUSE,
        queues=tuple(replace(item, num_slots=90 if item.site == "GAS" else None) for item in HOUSE.queues),
    )
    asked = task()
    choice = choice_of(load("greenest", TABLE), world(house, asked, jobs=jobs(asked, 30)))
    assert choice.candidates.queues == ("HYDRO-Q", "GAS-Q", "COAL-Q", "UNKNOWN-Q")
    assert choice.placed == {"HYDRO-Q": 20, "GAS-Q": 10}
    assert choice.candidates.weights[1] > choice.candidates.weights[0]
    lines = text_of(explain(choice), rules=True)
    assert "greenest first (X3) 20, weight" in lines[1]
    assert lines[-1] == "  runner-up GAS-Q, by greenest first (X3)"
    assert {move.binding for move in load("greenest", TABLE).decide(world(house, asked)).moves} == {"early"}


@relaxed
@given(worlds())
def _keeps_the_contract(state: World) -> None:
    names = sorted({item.name for item in state.federation.sites})
    table = {site: 100 * (place + 1) for place, site in enumerate(names[1:])}
    assert violations(load("carbon", {"limit": 150, "intensity": table}), state) == []
    assert violations(load("greenest", {"intensity": table}), state) == []


@pytest.mark.hypothesis
@pytest.mark.usefixtures("plugins")
def test_both_keep_the_contract_in_every_world() -> None:
    _keeps_the_contract()


@pytest.mark.usefixtures("plugins")
def test_the_production_brokerages_options_stand_beside_their_own() -> None:
    house = federation([queue("C", site="COAL", status="offline")])
    state = world(house, task())
    off = choice_of(load("carbon", {**OPTIONS, "off": ["X1", "B4"]}), state)
    assert off.candidates.queues == ("C",)


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "limit: None is not above 0; give g CO2e/kWh"),
        ({"limit": "much"}, "limit: 'much' is not above 0"),
        ({"limit": 1, "intensity": 3}, "intensity: 3 is not a mapping; give site: number"),
        ({"limit": 1, "intensity": {"A": [1, 2]}}, "intensity.A: has 2 numbers; give one number, or 24"),
        ({"limit": 1, "intensity": {"A": [1] * 23 + [-1]}}, "intensity.A.23: -1 is not above 0"),
        ({"limit": 1, "speed": 2}, "speed"),
    ],
)
def test_options_that_are_wrong_are_refused_with_their_place(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(PluginOptionsError, match=r"brokerage 'carbon' cannot be made") as refused:
        load("carbon", options)
    assert problem in str(refused.value)


def test_the_command_line_finds_it_in_the_federation_and_decides_the_same_every_time(
    installed: Path, tmp_path: Path
) -> None:
    house = replace(HOUSE, plugins={"atlas": "carbon"}, plugin_options={"carbon": OPTIONS, "greenest": TABLE})
    green = task(2, brokerage="greenest")
    saved = tmp_path / "world.yaml"
    saved.write_text(write(world(house, task(1), green)))
    command = [sys.executable, "-m", "pilotage.cli", "plan", "broker", "--world", str(saved), "--json"]
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    plans = {
        subprocess.run(
            command,
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    (plan,) = plans
    by_task = {choice["task"]: choice for choice in json.loads(plan)["choices"]}
    assert by_task[1]["candidates"]["factors"]["X2"][0] == 300 / 320
    assert [refusal["rule"] for refusal in by_task[1]["refusals"]] == ["X1"]
    assert by_task[2]["candidates"]["ordering"]["rule"] == "X3"
