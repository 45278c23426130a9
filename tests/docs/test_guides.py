"""The code in the guides does what the guides say."""

import re
from pathlib import Path
from typing import Any

from pilotage import server
from pilotage.brokerage.contract import violations
from pilotage.testing import federation, queue, task, world

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"


def test_the_plugins_of_the_guide_keep_the_contract() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (GUIDES / "plugin.md").read_text(), re.DOTALL)[:2]:
        exec(block, names)
    state = world(federation([queue("A", site="away"), queue("B", site="home")]), task())
    for name in ("Ours", "HomeFirst"):
        plugin = names[name]({})
        assert violations(plugin, state) == []
        assert plugin.decide(state).choices[0].candidates.queues == ("B", "A")


def test_the_builders_of_the_guide_build_what_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (GUIDES / "plugin.md").read_text(), re.DOTALL)
    (block,) = [block for block in blocks if "pilotage.testing" in block and "house =" in block]
    exec(block, {})


def test_every_loop_runs_somewhere_in_the_guide_to_several_processes() -> None:
    told = re.findall(r"--only ([a-z,]+)", (GUIDES / "deployment.md").read_text())
    assert sorted(loop for line in told for loop in line.split(",")) == sorted(server.LOOPS)
