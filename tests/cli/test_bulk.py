"""Tasks chosen by label, name, owner, state and site: listed, and changed after a question."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from pilotage.cli.app import app
from pilotage.cli.terminal import output
from pilotage.cli.work import bulk

from .conftest import FakeServer, Pilotage

ALL = "GET /tasks?label=campaign%3Da&label=day%3D1&name=fit-%2A&owner=bob&word=running&site=north&limit="
FILTERS = (
    *("--label", "campaign=a", "--label", "day=1", "--name", "fit-*", "--owner", "bob"),
    *("--state", "running", "--site", "north"),
)


def view(task: int, state: str = "running", held: str = "", **values: Any) -> dict[str, Any]:
    usual = {"name": f"fit-{task}", "owner": "bob", "vo": "", "priority": 5, "since": 1.0, "error": ""}
    return {"id": task, "state": state, "held": held, "jobs": {state: 2}, "labels": {}, **usual, **values}


def changed(server: FakeServer) -> list[str]:
    return [call.removeprefix("POST ") for call, _ in server.requests if call.startswith("POST")]


@pytest.fixture
def many(server: FakeServer) -> FakeServer:
    """Tasks in several states, of which each verb changes some."""
    views = [view(5), view(6, held="bob"), view(7, "failed"), view(8, "finished"), view(9, "cancelled")]
    server.answers["GET /tasks"] = {"tasks": views}
    for task in range(5, 10):
        for verb in ("hold", "release", "finish", "retry"):
            server.answers[f"POST /tasks/{task}/{verb}"] = {"jobs": {"running": 2}, "task": view(task)}
        server.answers[f"POST /tasks/{task}/cancel"] = view(task, "cancelled")
    return server


VERBS = [("cancel", [5, 6]), ("hold", [5]), ("release", [6]), ("finish", [5, 6, 7]), ("retry", [5, 6, 7, 9])]


@pytest.mark.parametrize(("verb", "tasks"), VERBS)
def test_a_verb_changes_the_chosen_tasks_that_it_can_change(
    pilotage: Pilotage, many: FakeServer, verb: str, tasks: list[int]
) -> None:
    result = pilotage(verb, *FILTERS, "--yes")
    assert result.exit_code == 0, result.output
    assert many.requests[0][0] == f"{ALL}10000"
    assert changed(many) == [f"/tasks/{task}/{verb}" for task in tasks]


@pytest.mark.parametrize(("verb", "tasks"), VERBS)
def test_without_a_terminal_it_is_refused_with_the_count(
    pilotage: Pilotage, many: FakeServer, verb: str, tasks: list[int]
) -> None:
    result = pilotage(verb, "--label", "campaign=a")
    assert (result.exit_code, changed(many)) == (2, [])
    many_ = f"{len(tasks)} task{'s' if len(tasks) > 1 else ''} with {2 * len(tasks)} jobs"
    assert f"{verb} {many_}" in result.stderr
    assert "--yes" in result.stderr


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_on_a_terminal_it_asks(
    pilotage: Pilotage, many: FakeServer, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr(output, "is_interactive", lambda: True)
    words = ["cancel", "--name", "fit-*"]
    result = CliRunner().invoke(app, words, input=answer, env=pilotage.environment)
    assert "cancel 2 tasks with 4 jobs (2 running)?" in result.stderr
    assert "5 fit-5, 6 fit-6" in result.stderr
    assert (result.exit_code, len(changed(many))) == (code, 0 if code else 2)


def test_a_dry_run_needs_no_answer(pilotage: Pilotage, many: FakeServer) -> None:
    result = pilotage("retry", "--dry-run", "--state", "failed")
    assert result.exit_code == 0
    assert {json.dumps(body) for call, body in many.requests if "POST" in call} == {
        '{"changes": {}, "dry_run": true, "anyway": false}'
    }


@pytest.mark.parametrize("verb", [verb for verb, _ in VERBS])
def test_tasks_are_named_or_chosen_and_one_must_be(pilotage: Pilotage, many: FakeServer, verb: str) -> None:
    assert pilotage(verb).exit_code == 2
    assert pilotage(verb, "5", "--label", "a=b", "--yes").exit_code == 2
    assert changed(many) == []


def test_no_match_and_too_many_are_told(
    pilotage: Pilotage, many: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST_TASKS", 5)
    result = pilotage("cancel", "--label", "a=b", "--yes")
    assert (result.exit_code, "choose fewer" in result.stderr, changed(many)) == (2, True, [])
    many.answers["GET /tasks"] = {"tasks": []}
    result = pilotage("cancel", "--label", "a=b", "--yes")
    assert (result.exit_code, result.stderr) == (1, "no task to cancel matches\n")
    many.answers["GET /tasks"] = {
        "tasks": [{"id": 1, "name": "t", "state": "finished", "held": "", "error": "", "jobs": {}}]
    }
    result = pilotage("cancel", "--label", "a=b", "--yes")
    told = "nothing to cancel: the filters match 1 task (1 done)\n"
    assert (result.exit_code, result.stderr) == (1, told)


def test_status_lists_with_the_same_filters(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks"] = {"tasks": [view(5, labels={"campaign": "a", "day": "1"})]}
    result = pilotage("status", *FILTERS)
    assert server.requests[0][0] == f"{ALL}50"
    assert "campaign=a, day=1" in result.stdout
    assert pilotage("status", "5", "--label", "a").exit_code == 2
    assert pilotage("status", "--state", "odd").exit_code == 2
    server.answers["GET /tasks"] = {"tasks": []}
    assert pilotage("status", "--label", "a").stdout == "No task matches.\n"


@pytest.mark.parametrize("option", ["--name", "--owner", "--site"])
def test_an_empty_text_chooses_nobody_s_tasks(pilotage: Pilotage, many: FakeServer, option: str) -> None:
    result = pilotage("cancel", option, "", "--state", "running", "--yes")
    assert result.exit_code == 2
    assert f"{option} is empty" in result.stderr
    assert many.requests == []
