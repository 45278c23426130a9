"""The jobs of a task, and what they wrote, on the terminal."""

import json
from typing import Any

import pytest

from .conftest import FakeServer, Pilotage


def job(number: int, **values: Any) -> dict[str, Any]:
    usual = {"queue": "north", "state": "failed", "attempt": 1, "wait": 5.0, "run": 61.0, "exit_code": 3}
    return {"id": number, "reason": "boom", **usual, **values}


def group(error: str, **values: Any) -> dict[str, Any]:
    usual = {"exit_code": 3, "queue": "north", "failed": 2, "retried": 0, "example": 7}
    return {"error": error, **usual, **values}


def answers(server: FakeServer, jobs: Any, *groups: Any, left_out: int = 0, **page: Any) -> None:
    server.answers["GET /tasks/3/jobs"] = {"jobs": jobs, **page}
    server.answers["GET /tasks/3/failures"] = {"groups": groups, "left_out": left_out}


def test_failures_come_before_jobs(pilotage: Pilotage, server: FakeServer) -> None:
    answers(server, [job(7), job(8, run=None)], group("boom"), left_out=4)
    result = pilotage("jobs", "3", "--failed", "--sort", "run")
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.stdout.splitlines()][:7] == [
        ["error", "queue", "exit", "failed", "retried", "example"],
        ["boom", "north", "3", "2", "job:7"],
        ["and", "4", "jobs", "with", "other", "errors"],
        [],
        ["job", "queue", "state", "try", "wait", "run", "exit", "error"],
        ["7", "north", "failed", "1", "5", "s", "1", "min", "3", "boom"],
        ["8", "north", "failed", "1", "5", "s", "3", "boom"],
    ]
    assert server.requests[1][0] == "GET /tasks/3/jobs?failed=true&sort=run&limit=50&parameters=true"


def test_one_failed_job_stands_once(pilotage: Pilotage, server: FakeServer) -> None:
    one = group("boom", failed=1)
    answers(server, [job(7)], one)
    lines = pilotage("jobs", "3").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["job", "7", "their"]
    assert lines[-1].startswith("their logs: pilotage logs 3 --failed")
    answers(server, [job(6)], one)
    assert "job:7" in pilotage("jobs", "3").stdout


def test_memory_is_shown_where_jobs_are_sorted_by_it(pilotage: Pilotage, server: FakeServer) -> None:
    answers(server, [job(7, max_rss=812.4), job(8, max_rss=None)])
    assert "812 MB" in pilotage("jobs", "3", "--sort", "memory").stdout
    assert "812 MB" not in pilotage("jobs", "3").stdout


def test_index_and_parameters_are_shown_where_jobs_have_them(pilotage: Pilotage, server: FakeServer) -> None:
    answers(server, [job(7, index=0, parameters={"sample": "a", "k": "21"})])
    result = pilotage("jobs", "3")
    assert "index" in result.stdout
    assert "sample=a, k=21" in result.stdout
    answers(server, [job(7)])
    assert "index" not in pilotage("jobs", "3").stdout


def test_a_full_page_says_how_to_see_more(pilotage: Pilotage, server: FakeServer) -> None:
    answers(server, [job(7), job(8)], next="abc=", total=1234)
    told = pilotage("jobs", "3", "--limit", "2", "--after", "x").stdout
    assert "2 of 1,234 jobs are shown; the next ones: --after abc=" in told
    answers(server, [job(7), job(8)], next="", total=2)
    assert "--after" not in pilotage("jobs", "3", "--limit", "2").stdout


def test_jobs_as_json_are_one_document(pilotage: Pilotage, server: FakeServer) -> None:
    answers(server, [job(7)], group("boom"))
    document = json.loads(pilotage("jobs", "3", "--json").stdout)
    assert (document["jobs"][0]["id"], document["failures"]["groups"][0]["error"]) == (7, "boom")


@pytest.mark.parametrize("word", ["job:3", "pilot:3", "", "a*"])
def test_what_is_no_task_is_refused(pilotage: Pilotage, word: str) -> None:
    assert pilotage("jobs", "--", word).exit_code == 2


def test_nothing_of_a_payload_is_obeyed_by_the_terminal(pilotage: Pilotage, server: FakeServer) -> None:
    answers(server, [job(7, reason="\x1b[2J")], group("\x1b[2J"))
    assert "\x1b" not in pilotage("jobs", "3").stdout
    logs = [{"stream": "stderr", "size": 4, "head": ["\x1b[2J"], "tail": [], "left_out": 0, "lost": 0}]
    server.answers["GET /tasks/3/logs"] = {
        "jobs": [{"job": job(7), "attempt": 1, "logs": logs}],
        "next": "",
    }
    result = pilotage("logs", "3", "--failed")
    assert "stderr: \\x1b[2J" in result.stdout
    assert "\x1b" not in result.stdout


def test_logs_of_a_task_are_read_page_by_page_up_to_the_limit(pilotage: Pilotage, server: FakeServer) -> None:
    log = {"stream": "stderr", "size": 400, "head": ["a"], "tail": ["z"], "left_out": 5, "lost": 0}
    pages = [
        {"jobs": [{"job": job(number), "attempt": 1, "logs": [log]}], "next": str(number)}
        for number in (7, 8, 9)
    ]
    server.answers["GET /tasks/3/logs"] = pages
    result = pilotage("logs", "3", "--failed", "--limit", "2")
    assert result.exit_code == 0, result.output
    assert [line for line in result.stdout.splitlines() if line.startswith("==")] == [
        "== job:7, attempt 1, failed at north: boom ==",
        "== job:8, attempt 1, failed at north: boom ==",
    ]
    assert "stderr: [5 lines between]" in result.stdout
    assert "--limit 20" in result.stdout
    assert [call for call, _ in server.requests] == [
        "GET /tasks/3/logs?failed=true&lines=10&limit=2",
        "GET /tasks/3/logs?failed=true&lines=10&limit=1&after=7",
    ]


def test_a_job_without_a_log_says_how_far_it_is(pilotage: Pilotage, server: FakeServer) -> None:
    states = ("activated", "starting", "running", "finished")
    rows = [
        {"job": job(number, state=state), "attempt": 1, "logs": []} for number, state in enumerate(states)
    ]
    server.answers["GET /tasks/3/logs"] = {"jobs": rows, "next": ""}
    said = [line for line in pilotage("logs", "3").stdout.splitlines() if not line.startswith("==")]
    assert said == [
        "This attempt has not started.",
        "Its pilot prepares it.",
        "It runs; its pilot sends the output at its next call.",
        "It wrote nothing, or its log is deleted.",
    ]


def test_a_task_of_notifications_has_a_name_too(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks"] = {"tasks": [{"id": 3, "name": "fit"}]}
    server.answers["GET /notifications"] = {"notifications": []}
    assert pilotage("notify", "list", "--task", "fit").exit_code == 0
    assert server.requests[-1][0] == "GET /notifications?task=3&limit=100"


def test_a_text_that_nobody_wrote_is_a_failure(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks/3/logs"] = {"jobs": [], "next": ""}
    result = pilotage("logs", "3", "--match", "KeyError")
    assert (result.exit_code, "'KeyError'" in result.stderr) == (1, True)


def test_options_of_one_job_are_refused_for_a_task(pilotage: Pilotage) -> None:
    assert pilotage("logs", "3", "--failed", "--follow").exit_code == 2
    assert pilotage("logs", "job:3", "--failed").exit_code == 2
