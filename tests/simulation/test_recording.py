"""What a server's jobs did, as a scenario: no secrets, the work that it was, and it can be simulated."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pilotage.cli.app import app
from pilotage.federation.documents import checked
from pilotage.federation.documents import read as read_document
from pilotage.model.documents.serialization import to_document
from pilotage.model.records.federation import Federation
from pilotage.model.records.notifications import Notify
from pilotage.model.records.work import InputFile, TaskSpec
from pilotage.simulation.reading import read
from pilotage.simulation.recording import EndedJob, RecordedTask, document_of, recorded
from pilotage.simulation.scenario import Scenario
from pilotage.simulation.submissions import submissions
from pilotage.simulation.trials import run
from tests.cli.conftest import FakeServer

FEDERATION = Path(__file__).parents[2] / "examples" / "simulation" / "federation.yaml"
SPEC = TaskSpec(
    name="count",
    share="production",
    command=("sh", "-c", "curl -H 'Authorization: hushed'"),
    environment={"TOKEN": "hushed"},
    payload_files={"key": "hushed"},
    stdin="hushed",
    notify=(Notify(url="https://example.org/hushed"),),
    inputs=tuple(InputFile(name=f"data/{at}", size=10**8, replicas=("east-disk", "gone")) for at in range(4)),
    scouts=0,
)


def task(created: float, *walls: float) -> RecordedTask:
    jobs = [EndedJob(queue="south-queue", wall_seconds=wall) for wall in walls]
    return RecordedTask(spec=SPEC, owner="alice", vo="sim", created=created, jobs=jobs)


def test_work_is_what_jobs_took_by_the_power_of_where_they_ran() -> None:
    declared = read_document(Federation, FEDERATION)
    tasks = [task(500, 100.0, 200.0, 400.0), task(300, 50.0), task(50, 50.0), task(400)]
    made = recorded("day", "federation.yaml", declared, tasks, begin=100, waits={})
    assert [(one.at, one.work, one.user) for one in made.tasks] == [(0, 400, "alice"), (200, 1600, "alice")]
    assert made.tasks[0].job_spread == 0
    assert made.tasks[1].job_spread == pytest.approx(0.566, abs=0.001)
    assert "hushed" not in str(to_document(made))
    assert {one.replicas for one in made.tasks[0].task.inputs if isinstance(one, InputFile)} == {
        ("east-disk",)
    }


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.close()


ENDED = {"name": "words", "state": "finished", "jobs": {}, "error": ""}


def test_a_day_of_a_server_is_written_and_simulated_under_another_policy(
    server: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "federation.yaml").write_text(FEDERATION.read_text())
    now = time.time()
    views = [
        {"id": id_, "owner": "alice", "vo": "", "created": now - ago} | ENDED
        for id_, ago in ((9, 60), (8, 3600), (7, 90_000))
    ]
    server.answers["GET /pilots/waits"] = {"waits": {"north-queue": [8.0, 10.0, 40.0], "gone": [1.0]}}
    server.answers["GET /federation"] = to_document(read_document(Federation, FEDERATION))
    server.answers["GET /tasks"] = {"tasks": views}
    for view in views:
        server.answers[f"GET /tasks/{view['id']}"] = view | {"spec": to_document(SPEC)}
        done = [
            {"id": 1, "state": "finished", "queue": "north-queue", "wall_seconds": seconds, "kind": kind}
            for seconds, kind in ((600.0, "normal"), (6000.0, "merge"))
        ]
        ended = {"jobs": done if view["id"] == 8 else []}
        server.answers[f"GET /tasks/{view['id']}/jobs"] = ended
    path = tmp_path / "day.yaml"
    environment = {"PILOTAGE_URL": server.url, "PILOTAGE_TOKEN": "x", "PILOTAGE_HOME": str(tmp_path)}
    told = CliRunner().invoke(app, ["record", str(path), "--json"], env=environment)
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout) == {"output": str(path), "tasks": 1, "left_out": 1}
    assert "hushed" not in path.read_text()
    case = read(path)
    assert [(one.work, one.job_spread) for one in case.scenario.tasks] == [(7200, 0)], "no merge job's"
    assert list(case.scenario.sites) == ["north"], "there alone pilots started"
    north = case.scenario.sites["north"]
    assert north.wait == 10
    assert north.wait_spread == pytest.approx(0.71, abs=0.01)
    assert case.scenario.tick == 30
    found = run(case, "early", 1, submissions(case, 1)).metrics
    assert (found.jobs, found.lost, found.unfinished) == (4, 0, 0)
    assert found.pilots >= 1, "those count that still stay at the end"
    day = f"{datetime.fromtimestamp(now - 3600, UTC):%Y-%m-%d}"
    again = CliRunner().invoke(
        app, ["simulate", "--day", day, "--policy", "early", "--json"], env=environment
    )
    assert again.exit_code == 0, again.output
    assert '"jobs": 4' in again.stdout, "the same work, without a file"
    for wrong in (["--day", "tomorrow"], ["--day", day, str(path)]):
        assert CliRunner().invoke(app, ["simulate", *wrong], env=environment).exit_code == 2
    server.answers["GET /tasks"] = {"tasks": []}
    empty = CliRunner().invoke(app, ["record", str(path)], env=environment)
    assert (empty.exit_code, "has ended well" in empty.output) == (1, True)
    as_json = tmp_path / "day.json"
    server.answers["GET /tasks"] = {"tasks": views}
    written = CliRunner().invoke(app, ["record", str(as_json)], env=environment)
    assert written.exit_code == 0
    assert "pilots wait as they did at 1 site, 600 s (median) at 3 where none started" in written.stderr
    assert json.loads(as_json.read_text())["tasks"][0]["task"]["name"] == SPEC.name


@pytest.mark.parametrize(
    ("text", "name"),
    [("day", "day"), ("ünï day", "n-day"), ("2026-05-01_x", "2026-05-01_x"), ("ü", "recorded")],
)
def test_a_recording_has_a_name_that_a_scenario_may_have(text: str, name: str) -> None:
    declared = read_document(Federation, FEDERATION)
    made = recorded(text, "federation.yaml", declared, [task(500, 100.0)], begin=100, waits={})
    assert checked(Scenario, document_of(made)).name == name


def test_a_recording_of_a_month_may_last_longer_than_that(tmp_path: Path) -> None:
    (tmp_path / "federation.yaml").write_text(FEDERATION.read_text())
    tasks = [task(created, 100.0) for created in (0, 30 * 86_400.0)]
    made = recorded(
        "month", "federation.yaml", read_document(Federation, FEDERATION), tasks, begin=0, waits={}
    )
    (tmp_path / "month.json").write_text(json.dumps(document_of(made)))
    assert read(tmp_path / "month.json").scenario.limit == 37 * 86_400


def test_ticks_of_a_recording_are_short_beside_its_jobs() -> None:
    declared = read_document(Federation, FEDERATION)
    ticks = [
        recorded("day", "f.yaml", declared, [task(500, wall)], begin=100, waits={}).tick
        for wall in (2.0, 60.0, 6000.0)
    ]
    assert ticks == [1, 6, 30]
