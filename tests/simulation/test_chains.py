"""Chains of tasks in a simulation, and in a recorded scenario: by the same step as on a server."""

from dataclasses import replace
from pathlib import Path

import pytest

from pilotage.federation.documents import read
from pilotage.model.records.federation import Federation
from pilotage.model.records.inputs import InputFile, TaskOutputs
from pilotage.model.records.spec import TaskSpec
from pilotage.simulation.recording import EndedJob, RecordedTask, document_of, recorded
from pilotage.simulation.scenario import Scenario

from .test_trials import FEDERATION, FEW, small, trial

pytestmark = pytest.mark.slow
ALIGN = TaskSpec(name="align", share="production", jobs=4, command=("x",), outputs=("out",), scouts=0)


def test_a_chain_in_a_scenario_runs_stage_by_stage(tmp_path: Path) -> None:
    first = "{ task: { name: align, share: production, jobs: 4, command: [x], outputs: [out], scouts: 0 } }"
    second = "{ task: { name: call, share: production, inputs: [{ task: align }], scouts: 0 }, at: 1 }"
    text = FEW.partition("generated:")[0] + f"tasks: [{first}, {second}]\nlimit: 50000\n"
    found = trial(small(tmp_path, scenario=text)).metrics
    assert (found.jobs, found.unfinished, found.lost) == (8, 0, 0)


def test_a_recorded_chain_is_a_chain_in_the_scenario(tmp_path: Path) -> None:
    declared = read(Federation, FEDERATION)
    outputs = tuple(
        InputFile(name=f"tasks/{declared.name}/{task}/{job}/out", size=10, replicas=("east-disk",))
        for task, job in ((7, 1), (7, 2), (3, 1))
    )
    call = replace(ALIGN, name="call", jobs=1, inputs=outputs, after=("align",))
    jobs = [EndedJob(queue="south-queue", wall_seconds=60.0)]
    tasks = [
        RecordedTask(id=id_, spec=spec, owner="alice", vo="sim", created=500, jobs=jobs)
        # The later task has the smaller number, as tasks of one workflow may.
        for id_, spec in ((6, call), (7, ALIGN))
    ]
    made = recorded("day", "federation.yaml", declared, tasks, begin=100, waits={})
    first, second = (one.task for one in made.tasks)
    assert (first.name, second.name, second.after) == ("align.7", "call", ("align.7",))
    plain, read_of = second.inputs
    assert isinstance(plain, InputFile)
    assert plain.name == f"recorded/tasks/{declared.name}/3/1/out"
    assert read_of == TaskOutputs(task="align.7")
    path = small(tmp_path)
    from pilotage.federation.text import render

    path.write_text(render(document_of(made)))
    assert isinstance(read(Scenario, path), Scenario)
    found = trial(path).metrics
    assert (found.jobs, found.unfinished, found.lost) == (9, 0, 0)
