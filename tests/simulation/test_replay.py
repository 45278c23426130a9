"""Replays: waiting jobs of a saved world are brokered anew under other policies."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pilotage.cli.app import app
from pilotage.federation.documents import write
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Link
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, Replica
from pilotage.simulation.policies import KNOWN
from pilotage.simulation.replay import replay
from pilotage.testing import federation, jobs, jobs_at, queue, task, world

GIGABYTE = 10**9


def crowded() -> World:
    """Twenty jobs at FAR, which holds their input and is full with them and ten more that run."""
    house = federation(
        [queue("NEAR"), queue("FAR", site="AWAY")],
        links=[Link(source="AWAY", destination="HOME", throughput_1h=10)],
    )
    asked = task(io_intensity=500, walltime=36_000)
    waiting = [
        replace(job, state=JobState.ACTIVATED, queue="FAR", inputs=(f"f{at}",))
        for at, job in enumerate(jobs(asked, 20))
    ]
    return world(
        house,
        asked,
        jobs=waiting,
        files=[File(name=f"f{at}", size=GIGABYTE, checksum="") for at in range(20)],
        replicas=[Replica(file=f"f{at}", storage="AWAY-DISK") for at in range(20)],
        job_counts=jobs_at("FAR", activated=20, running=10),
    )


def test_what_waits_is_brokered_as_if_it_had_no_queue() -> None:
    found = replay(crowded(), KNOWN["pilotage"])
    assert (found.queues, found.left, found.elsewhere, found.to_move) == ({"FAR": 20}, 0, 0, 0)


def test_another_policy_sends_some_elsewhere_and_says_what_moves() -> None:
    found = replay(crowded(), KNOWN["sooner"])
    assert found.queues["NEAR"] == found.elsewhere > 0
    assert sum(found.queues.values()) == 20
    assert found.to_move == found.elsewhere


def test_what_has_started_stays_where_it_is() -> None:
    state = crowded()
    running = tuple(replace(job, state=JobState.RUNNING) for job in state.jobs)
    found = replay(replace(state, jobs=running), KNOWN["pilotage"])
    assert (found.queues, found.left) == ({}, 0)


def test_the_command_replays_a_file(tmp_path: Path) -> None:
    path = tmp_path / "world.yaml"
    path.write_text(write(crowded()))
    words = ["simulate", "--replay", str(path), "--policy", "pilotage", "--policy", "sooner"]
    document = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert document["pilotage"]["queues"] == {"FAR": 20}
    table = CliRunner().invoke(app, words)
    assert "elsewhere than now" in table.stdout
    assert CliRunner().invoke(app, ["simulate", "--replay", str(path), "--policy", "x"]).exit_code == 2
    misspelt = CliRunner().invoke(app, ["simulate", "--replay", str(path), "--policy", "elatsic"])
    assert "there is no policy 'elatsic'; did you mean elastic?" in misspelt.output


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "world.yaml"
    path.write_text(write(crowded()))
    return path


@pytest.mark.parametrize("name", ["bound", "elastic", "leaving", "late"])
def test_a_policy_that_differs_afterwards_only_places_alike_and_that_is_said(saved: Path, name: str) -> None:
    assert replay(crowded(), KNOWN[name]) == replay(crowded(), KNOWN["pilotage"])
    told = CliRunner().invoke(app, ["simulate", "--replay", str(saved), "--policy", name])
    assert told.stderr == f"{name}: differs only in what follows a decision, which a scenario shows\n"


def test_policies_that_choose_differently_are_not_told_to_be_alike() -> None:
    assert not any(KNOWN[name].shows_afterwards for name in ("pilotage", "early", "sooner", "unguarded"))


@pytest.mark.parametrize("name", ["random", "race", "delayed", "reference"])
def test_a_policy_that_needs_a_run_is_refused_with_those_that_do_not(saved: Path, name: str) -> None:
    told = CliRunner().invoke(app, ["simulate", "--replay", str(saved), "--policy", name])
    assert told.exit_code == 2
    known = told.stderr.partition("there are ")[2].strip().split(", ")
    assert "sooner" in known
    assert name not in known


def test_a_scenario_lends_its_own_policies_to_a_replay(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "federation.yaml").write_text(write(crowded().federation))
    scenario = tmp_path / "mine.yaml"
    scenario.write_text(
        "name: mine\nfederation: federation.yaml\ngenerated: { tasks: 1 }\n"
        "policies: { near: { constants: { brokerage: { input_moves: sooner } } } }\n"
    )
    words = ["simulate", str(scenario), "--replay", str(saved), "--policy", "near", "--json"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["near"]["queues"] == {"FAR": 19, "NEAR": 1}
