"""Wait for tasks, watch them, and find them by their names."""

import io
import json
import time
from typing import Any

import pytest
from rich.console import Console

from .conftest import FakeServer, Pilotage


def view(task: int, state: str, **values: Any) -> dict[str, Any]:
    usual = {"name": f"t{task}", "error": "", "jobs": {state: 1}, "created": time.time()}
    return {"id": task, "state": state, **usual, **values}


def test_wait_ends_when_all_have_finished(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks/3"] = [view(3, "running"), view(3, "finished")]
    server.answers["GET /tasks/4"] = view(4, "finished")
    result = pilotage("wait", "3", "task:4")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == [
        "task 3 t3 is done",
        "task 4 t4 is done",
    ]


def test_wait_fails_if_one_failed_and_returns_its_views_as_json(
    pilotage: Pilotage, server: FakeServer
) -> None:
    server.answers["GET /tasks/3"] = view(3, "failed", error="boom")
    server.answers["GET /tasks/4"] = view(4, "finished")
    result = pilotage("wait", "3", "4", "--json")
    assert (result.exit_code, result.stderr.strip()) == (1, "task 3 failed: boom")
    assert [task["id"] for task in json.loads(result.stdout)["tasks"]] == [3, 4]


def test_wait_any_returns_with_the_first(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks/3"] = view(3, "running")
    server.answers["GET /tasks/4"] = [view(4, "running"), view(4, "finished")]
    result = pilotage("wait", "3", "4", "--any")
    assert (result.exit_code, result.stdout) == (0, "task 4 t4 is done: 1 job\n")


def test_wait_ends_with_4_after_its_time(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks/3"] = view(3, "running")
    result = pilotage("wait", "3", "--timeout", "0")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "task 3 is running after 0 s; to come back: pilotage wait 3" in result.stderr


@pytest.mark.parametrize("words", [["wait", "3"], ["watch", "3"], ["status", "3", "--watch"]], ids=" ".join)
def test_an_interrupt_detaches_and_says_how_to_come_back(
    pilotage: Pilotage, server: FakeServer, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    # The module's own name alone: other threads of the tests sleep too.
    monkeypatch.setattr("pilotage.client._sync.following.sleep", interrupted)
    server.answers["GET /tasks/3"] = view(3, "running")
    result = pilotage(*words)
    assert result.exit_code == 130
    assert "pilotage wait 3" in result.stderr
    assert {call.split()[0] for call, _ in server.requests} == {"GET"}


def test_watch_without_tasks_follows_those_under_way(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks"] = {"tasks": []}
    server.answers["GET /tasks?state=running&limit=20"] = {"tasks": [view(3, "running")]}
    server.answers["GET /tasks/3"] = [view(3, "running"), view(3, "failed")]
    result = pilotage("watch")
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        ["task 3 t3 is running: 1 job", "task 3 t3 failed: 1 job"],
    )
    server.answers["GET /tasks?state=running&limit=20"] = {"tasks": []}
    assert pilotage("watch").exit_code == 1


NAMED = (
    *(["status", "fit"], ["jobs", "fit"], ["logs", "fit", "--failed"], ["wait", "fit"], ["watch", "fit"]),
    *(
        ["outputs", "fit"],
        ["fetch", "fit"],
        ["explain", "fit"],
        ["publish", "fit"],
        ["sites", "match", "fit"],
    ),
    *([verb, "fit"] for verb in ("cancel", "hold", "release", "finish", "retry")),
)


@pytest.mark.parametrize("words", NAMED, ids=" ".join)
def test_a_name_is_the_newest_task_of_that_name(
    pilotage: Pilotage, server: FakeServer, words: list[str]
) -> None:
    server.answers["GET /tasks"] = {"tasks": [view(7, "finished")]}
    pilotage(*words)
    assert server.requests[0][0] == "GET /tasks?name=fit&mine=true&limit=1"
    # What follows a task asks for its events first.
    asked = server.requests[1][0].partition(" ")[2]
    assert asked.startswith("/tasks/7") or asked.endswith("&task=7"), server.requests


@pytest.mark.parametrize("words", NAMED, ids=" ".join)
def test_a_name_that_no_task_has_is_told(pilotage: Pilotage, server: FakeServer, words: list[str]) -> None:
    server.answers["GET /tasks"] = {"tasks": []}
    server.answers["GET /workflows"] = {"workflows": []}
    result = pilotage(*words)
    assert (result.exit_code, "no task of the name 'fit'" in result.stderr) == (1, True)
    assert [call for call, _ in server.requests[1:]] in ([], ["GET /workflows?name=fit&mine=true&limit=1"])


def test_a_bar_stays_beside_what_waits_on_a_terminal_of_80_columns(
    pilotage: Pilotage, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr("pilotage.cli.work.following.console", lambda _=False: terminal)
    monkeypatch.setattr("pilotage.cli.work.following.is_terminal", lambda _=False: True)
    waiting = view(11, "running", name="waits-behind-it", jobs={"activated": 2, "finished": 2})
    server.answers["GET /tasks/11"] = [waiting, {**waiting, "state": "finished"}]
    assert pilotage("watch", "11").exit_code == 0
    line = next(line for line in screen.getvalue().splitlines() if "waits-behind-it" in line)
    assert "━" in line
    assert "2 waiting, 2 done" in line


def test_the_last_line_of_a_traceback_comes_first(pilotage: Pilotage, server: FakeServer) -> None:
    first = "its only job failed; job 9: payload exited with code 1"
    error = f"{first}\nTraceback\n  File a\nOSError: [Errno 28] full"
    server.answers["GET /tasks/3"] = view(3, "failed", error=error)
    assert pilotage("wait", "3").stderr == (
        f"task 3 failed: OSError: [Errno 28] full ({first}); all of it: pilotage logs 3 --failed\n"
    )
