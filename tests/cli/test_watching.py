"""Keys of ``watch`` on a real terminal, which the test types on and reads."""

import sys
import time
from typing import Any

import pexpect
import pytest

from .conftest import FakeServer, Pilotage
from .test_waiting import view

UP, DOWN = "\x1b[A", "\x1b[B"


def job(number: int, state: str, since: float) -> dict[str, Any]:
    return {"id": number, "state": state, "since": since}


@pytest.fixture
def served(server: FakeServer) -> FakeServer:
    """Two tasks that run; one has a job that failed last."""
    for task in (3, 4):
        server.answers[f"GET /tasks/{task}"] = view(task, "running", jobs={"running": 1, "failed": 1})
        server.answers[f"GET /tasks/{task}/explain"] = {"lines": [f"task {task} has to wait its turn"]}
        server.answers[f"GET /tasks/{task}/jobs"] = {"jobs": []}
    server.answers["GET /tasks/4/jobs?word=failed&sort=since&limit=1"] = {"jobs": [job(41, "failed", 20)]}
    server.answers["GET /tasks/4/jobs?word=running&sort=since&limit=1"] = {"jobs": [job(42, "running", 10)]}
    part = {"start": 0, "end": 9, "text": "it broke\x1b[2J"}
    log = {"stream": "stdout", "size": 9, "parts": [part]}
    server.answers["GET /jobs/41/logs"] = {"logs": [log], "attempt": 1, "attempts": [1], "runs": False}
    return server


def terminal(pilotage: Pilotage, *words: str) -> "pexpect.spawn[str]":
    environment = {name: value for name, value in pilotage.environment.items() if value is not None}
    return pexpect.spawn(
        sys.executable,
        ["-m", "pilotage.cli", *words],
        env={"PATH": "/usr/bin:/bin", "TERM": "xterm", **environment},
        dimensions=(24, 100),
        encoding="utf-8",
        timeout=30,
    )


def test_keys_select_a_task_and_show_why_and_a_log_and_quit(pilotage: Pilotage, served: FakeServer) -> None:
    shown = terminal(pilotage, "watch", "3", "4")
    shown.expect("> task 3 t3 running")
    shown.expect("q: quit, the tasks go on")
    shown.send("w")
    shown.expect("task 3 has to wait its turn")
    shown.send(DOWN)
    shown.expect("> task 4 t4 running")
    shown.send("l")
    shown.expect("log of job:41, failed")
    shown.expect(r"it broke\\x1b\[2J")
    shown.send(UP)
    shown.expect("> task 3 t3 running")
    shown.send("l")
    shown.expect("no job of task 3 has failed, and none runs")
    shown.send("q")
    shown.expect("to come back: pilotage wait 3")
    shown.expect(pexpect.EOF)
    shown.close()
    assert shown.exitstatus == 0
    assert {call.split()[0] for call, _ in served.requests} == {"GET"}


def test_the_view_ends_with_the_tasks_and_an_interrupt_detaches(
    pilotage: Pilotage, served: FakeServer
) -> None:
    shown = terminal(pilotage, "watch", "3")
    shown.expect("> task 3 t3 running")
    shown.sendintr()
    shown.expect("to come back: pilotage wait 3")
    shown.expect(pexpect.EOF)
    shown.close()
    assert shown.exitstatus == 130
    served.answers["GET /tasks/3"] = view(3, "finished", since=time.time())
    shown = terminal(pilotage, "watch", "3")
    shown.expect("> task 3 t3 done")
    shown.expect(pexpect.EOF)
    shown.close()
    assert shown.exitstatus == 0
