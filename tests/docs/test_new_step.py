"""A new step is one file: its loop, its wake-ups, its plan, the command's choices and the page know it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pilotage.federation.documents import write
from pilotage.testing import world

from .modules import SOURCE

TOY = '''
"""Count what waits, and say so."""

from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.decision import Decision
from pilotage.model.records.states import JobState


def decide(world):
    note = f"{sum(one.jobs for one in world.job_counts)} jobs at {world.time:g}"
    return Decision(step="tally", time=world.time, seed=world.seed, notes={"tally": (note,)})


STEP = Step(
    name="tally",
    place=99,
    summary="Count what waits.",
    reads=("job_counts", "space_sightings"),
    phases=always(Phase(actor="tally", decide=decide)),
    idle=lambda world: iter(["nothing to count"]),
    wakes_on=frozenset({("job", JobState.ACTIVATED)}),
)
'''
SEEN = """
import json
from generate import steps
from pilotage.server import process as server
from pilotage.cli.planning.deciding import step_names
from pilotage.flow.loops.wakeups import Wakeups
from pilotage.flow.steps import STEPS

wakeups = Wakeups(STEPS)
woken = []
for tell in (lambda: wakeups.arrived({("job", "activated")}), lambda: wakeups.tell("space_sightings")):
    tell()
    woken.append(wakeups.is_woken("tally"))
print(json.dumps({
    "loops": "tally" in server.LOOPS,
    "choices": "tally" in step_names(),
    "page": [line for line in steps().splitlines() if "tally" in line],
    "woken": woken,
}))
"""


@pytest.fixture
def extended(tmp_path: Path) -> dict[str, str]:
    """The environment of a Pilotage with one file more."""
    mirror, steps = tmp_path / "pilotage", Path("flow", "steps")
    for folder in (Path(), *reversed(steps.parents[:-1]), steps):
        (mirror / folder).mkdir()
        for entry in (SOURCE / folder).iterdir():
            if entry.name != "__pycache__" and folder / entry.name not in (*steps.parents, steps):
                (mirror / folder / entry.name).symlink_to(entry)
    (mirror / steps / "tally.py").write_text(TOY)
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE.parents[1] / "docs")])}


def run(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_step_is_known_everywhere_by_its_file_alone(extended: dict[str, str], tmp_path: Path) -> None:
    told = json.loads(run(extended, "-c", SEEN))
    assert told == {
        "loops": True,
        "choices": True,
        "page": [
            "| `tally` | Count what waits. | job activated, events in `space_sightings` | every period |",
            "| `tally` | `job_counts`, `space_sightings` |",
        ],
        "woken": [True, True],
    }


def test_a_new_step_is_planned_from_a_saved_world(extended: dict[str, str], tmp_path: Path) -> None:
    saved = tmp_path / "world.yaml"
    saved.write_text(write(world()))
    words = ("-m", "pilotage.cli", "plan", "tally", "--world", str(saved), "--json")
    planned = run(extended, *words)
    assert json.loads(planned)["notes"] == {"tally": [f"0 jobs at {world().time:g}"]}
