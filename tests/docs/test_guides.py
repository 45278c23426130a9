"""The code in the guides does what the guides say."""

import re
from pathlib import Path
from typing import Any

from hypothesis import given

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.policies.brokerage.contract import violations
from pilotage.policies.brokerage.engine.guarded_decisions import guarded_decision
from pilotage.server import process as server
from pilotage.testing import federation, jobs, jobs_at, queue, task, world
from tests.brokerage.test_production_properties import worlds

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"


def test_the_page_on_proxies_has_the_configuration_of_the_package() -> None:
    """The test of the page on production runs nginx with that file."""
    file = GUIDES.parents[1] / "deploy" / "nginx" / "pilotage.conf"
    assert f"```nginx\n{file.read_text()}```" in (GUIDES / "reverse-proxy.md").read_text()


def test_the_plugins_of_the_guide_keep_the_contract() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (GUIDES / "plugin.md").read_text(), re.DOTALL)[:2]:
        exec(block, names)
    state = world(federation([queue("A", site="away"), queue("B", site="home")]), task())
    for name in ("Ours", "HomeFirst"):
        plugin = names[name]({})
        assert violations(plugin, state) == []
        assert plugin.decide(state).choices[0].candidates.queues == ("B", "A")


def _code(named: str) -> dict[str, Any]:
    """Run the one block of the page on plugins that names something."""
    blocks = re.findall(r"```python\n(.*?)```", (GUIDES / "plugin.md").read_text(), re.DOTALL)
    (block,) = [block for block in blocks if named in block]
    names: dict[str, Any] = {}
    exec(block, names)
    return names


class Guarded:
    """A plugin as the server lets it decide."""

    def __init__(self, plugin: Any) -> None:
        self.plugin, self.reads = plugin, plugin.reads

    def decide(self, state: World) -> Decision:
        return guarded_decision(self.plugin.decide(state), state)


@given(worlds())
def test_the_brokerage_of_its_own_of_the_guide_keeps_the_contract(state: World) -> None:
    plugin = _code("class FewestWaiting")["FewestWaiting"]({})
    told = violations(plugin, state)
    assert [one for one in told if ", where the server stops it: " not in one] == []
    assert violations(Guarded(plugin), state) == []


def test_the_brokerage_of_its_own_of_the_guide_takes_the_queue_where_fewest_wait() -> None:
    plugin = _code("class FewestWaiting")["FewestWaiting"]({"pause": 60.0})
    asked = task(cores=4)
    house = federation([queue("BIG", cores=8), queue("SMALL", cores=1), queue("IDLE", cores=8)])
    state = world(house, asked, jobs=jobs(asked, 3), job_counts=jobs_at("BIG", activated=5))
    (choice,) = plugin.decide(state).choices
    assert (choice.candidates.queues, choice.placed) == (("IDLE", "BIG"), {"IDLE": 3})
    assert choice.refusals[0].queues == ("SMALL",)


def test_the_builders_of_the_guide_build_what_it_says() -> None:
    _code("house = federation(")


def test_every_loop_runs_somewhere_in_the_guide_to_several_processes() -> None:
    told = re.findall(r"--only ([a-z,]+)", (GUIDES / "deployment.md").read_text())
    assert sorted(loop for line in told for loop in line.split(",")) == sorted(server.LOOPS)
