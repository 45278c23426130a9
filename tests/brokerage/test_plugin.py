"""The plugin interface: loading by entry point, options, clear errors."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.model.values.entry_point_groups import BROKERAGES
from pilotage.policies.brokerage import PluginError, PluginOptionsError, UnknownPluginError, load, plugin
from pilotage.policies.brokerage.production import Production


class Lazy:
    """A plugin that takes one option and never places a job."""

    def __init__(self, options: dict[str, int]) -> None:
        self.patience = options["patience"] if options else 0
        if self.patience < 0:
            raise ValueError("patience is negative")

    def decide(self, world: World) -> Decision:
        return Decision(step="broker", time=world.time, seed=world.seed)


class NoPlugin:
    """Decides nothing."""

    def __init__(self, options: dict[str, int]) -> None:
        self.options = options


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """The entry points that are installed."""
    found = [
        EntryPoint(name="lazy", value=f"{__name__}:Lazy", group=BROKERAGES),
        EntryPoint(name="none", value=f"{__name__}:NoPlugin", group=BROKERAGES),
    ]
    monkeypatch.setattr(plugin, "entry_points", lambda group: EntryPoints(found).select(group=group))
    return found


def test_the_production_brokerage_is_installed() -> None:
    assert isinstance(load("production", {}), Production)


def test_a_plugin_is_made_with_its_options(entries: list[EntryPoint]) -> None:
    made = load("lazy", {"patience": 3})
    assert isinstance(made, Lazy)
    assert made.patience == 3


def test_an_unknown_plugin_names_those_that_there_are(entries: list[EntryPoint]) -> None:
    with pytest.raises(UnknownPluginError, match="no brokerage is called 'eager'; installed: lazy, none"):
        load("eager", {})


def test_a_plugin_offered_twice_is_not_chosen_by_chance(entries: list[EntryPoint]) -> None:
    entries.append(EntryPoint(name="lazy", value=f"{__name__}:NoPlugin", group=BROKERAGES))
    with pytest.raises(UnknownPluginError, match="offered more than once"):
        load("lazy", {})


def test_bad_options_say_which_plugin_and_why(entries: list[EntryPoint]) -> None:
    with pytest.raises(PluginOptionsError, match=r"brokerage 'lazy' .* patience is negative"):
        load("lazy", {"patience": -1})


def test_the_production_brokerage_refuses_options_that_it_does_not_know() -> None:
    with pytest.raises(
        PluginOptionsError, match=r"brokerage 'production' .*: speed: there is no such option"
    ):
        load("production", {"speed": 11})


def test_what_cannot_decide_is_no_plugin(entries: list[EntryPoint]) -> None:
    with pytest.raises(PluginError, match="brokerage 'none' has no method decide"):
        load("none", {})
