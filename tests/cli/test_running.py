"""One-off tasks from the command line, and tasks from standard input."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from pilotage.cli.app import app
from pilotage.cli.work import submissions

from .conftest import FakeServer, Pilotage
from .test_waiting import view

ACCEPTED = {"tasks": [{"index": 0, "id": 3, "name": "t"}], "refused": [], "warnings": []}


def log(stream: str, text: str) -> dict[str, Any]:
    return {"stream": stream, "size": len(text), "parts": [{"start": 0, "end": len(text), "text": text}]}


def ends(server: FakeServer, state: str, *jobs: Any, error: str = "") -> None:
    server.answers["POST /tasks"] = (201, ACCEPTED)
    server.answers["GET /tasks/3"] = [view(3, "running"), view(3, state, error=error)]
    server.answers["GET /tasks/3/jobs"] = {"jobs": jobs}
    for job in jobs:
        logs = [log("stderr", f"err {job['id']}\n"), log("stdout", f"out {job['id']}\n")]
        server.answers[f"GET /jobs/{job['id']}/logs"] = {"logs": logs}


def job(number: int, state: str = "finished", code: int | None = 0) -> dict[str, Any]:
    return {"id": number, "state": state, "exit_code": code}


def sent(server: FakeServer) -> Any:
    ((_, body),) = [one for one in server.requests if one[0] == "POST /tasks"]
    return body["tasks"][0]


def test_a_command_becomes_a_task_and_its_output_that_of_the_command(
    pilotage: Pilotage, server: FakeServer
) -> None:
    ends(server, "finished", job(5))
    words = ["--cores", 2, "--memory", 500, "--walltime", 60, "--input", "disk:raw/*.fa", "--output", "a.txt"]
    words += ["--secret", "TOKEN", "--secret", "prod.key:KEY"]
    result = pilotage("run", *words, "--", "/usr/bin/my tool", "--json", "x")
    assert result.exit_code == 0, result.output
    assert result.stdout == "out 5\n"
    assert "err 5\n" in result.stderr
    assert "pilotage fetch 3" in result.stderr
    task = sent(server)
    assert task["command"] == ["/usr/bin/my tool", "--json", "x"]
    assert (task["name"], task["cores"], task["ram"], task["ram_unit"]) == ("my-tool", 2, 500, "MB")
    assert (task["walltime"], task["outputs"]) == (60, ["a.txt"])
    assert task["inputs"] == [{"storages": ["disk"], "glob": "raw/*.fa"}]
    assert task["secrets"] == ["TOKEN", {"name": "prod.key", "as": "KEY"}]
    assert task["files_per_job"] == 2**31 - 1, "one job reads all"


@pytest.mark.parametrize(("code", "shell"), [(7, 7), (-9, 137), (None, 1), (300, 1)])
def test_the_exit_code_is_the_payloads(
    pilotage: Pilotage, server: FakeServer, code: int | None, shell: int
) -> None:
    ends(server, "failed", job(5, "failed", code), error="boom\nmore")
    result = pilotage("run", "--", "false")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (shell, "task 3 failed: boom")


def test_an_array_has_a_heading_for_each_job_and_bounded_logs(pilotage: Pilotage, server: FakeServer) -> None:
    jobs = [job(number) for number in range(10, 34)] + [job(40, "failed", 4)]
    ends(server, "failed", *jobs)
    result = pilotage("run", "--array", 25, "--", "work")
    assert (result.exit_code, sent(server)["jobs"]) == (4, 25)
    assert result.stdout.splitlines()[0] == "out 40", "failed jobs come first"
    assert len(result.stdout.splitlines()) == 20
    assert "logs of 5 more jobs: pilotage logs 3" in result.stderr


def test_faults_are_told_by_option(pilotage: Pilotage, server: FakeServer) -> None:
    fault = {"field": "ram", "message": "is too much"}
    refused = {"tasks": [], "refused": [{"index": 0, "errors": [fault]}]}
    server.answers["POST /tasks"] = (422, refused)
    result = pilotage("run", "--memory", "1e9", "--", "work")
    assert (result.exit_code, result.stderr.strip()) == (2, "--memory: is too much")
    both = pilotage("run", "--array", 2, "--input", "a", "--", "work")
    assert both.exit_code == 2
    assert pilotage("run").exit_code == 2


def test_a_run_as_json_is_one_document(pilotage: Pilotage, server: FakeServer) -> None:
    ends(server, "finished", job(5))
    document = json.loads(pilotage("run", "--json", "--", "true").stdout)
    assert (document["task"]["id"], document["jobs"][0]["exit_code"]) == (3, 0)


def test_a_document_comes_from_standard_input(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /tasks"] = (201, ACCEPTED)
    text = "name: piped\ncommand: ['true']\n"
    result = CliRunner().invoke(app, ["submit", "-"], input=text, env=pilotage.environment)
    assert (result.exit_code, sent(server)["name"]) == (0, "piped")
    wrong = CliRunner().invoke(app, ["submit", "-"], input="name: piped\nramm: 5\n", env=pilotage.environment)
    assert (wrong.exit_code, "standard input:2" in wrong.stderr) == (2, True)


@pytest.fixture
def known(pilotage: Pilotage, server: FakeServer, tmp_path: Any) -> Any:
    """A file that was submitted as task 3."""
    file = tmp_path / "t.yaml"
    file.write_text("name: twice\ncommand: ['true']\n")
    server.answers["POST /tasks"] = (201, ACCEPTED)
    server.answers["GET /tasks/3"] = view(3, "running")
    assert pilotage("submit", file).exit_code == 0
    return file


def posts(server: FakeServer) -> int:
    return sum(call == "POST /tasks" for call, _ in server.requests)


def test_without_a_terminal_a_second_submission_is_told_and_done(
    pilotage: Pilotage, server: FakeServer, known: Any
) -> None:
    result = pilotage("submit", known)
    assert (result.exit_code, posts(server)) == (0, 2)
    assert "was submitted 0 s ago as task 3 (running)" in result.stderr


@pytest.mark.parametrize(("answer", "code", "sent_"), [("y\n", 0, 2), ("n\n", 1, 1), ("\n", 1, 1)])
def test_on_a_terminal_a_second_submission_asks(
    pilotage: Pilotage,
    server: FakeServer,
    known: Any,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    sent_: int,
) -> None:
    monkeypatch.setattr(submissions, "is_interactive", lambda: True)
    result = CliRunner().invoke(app, ["submit", str(known)], input=answer, env=pilotage.environment)
    assert (result.exit_code, posts(server)) == (code, sent_)
    assert pilotage("submit", known, "--yes").exit_code == 0


def test_a_key_asks_nothing_and_is_the_requests(pilotage: Pilotage, server: FakeServer, known: Any) -> None:
    result = pilotage("submit", known, "--key", "nightly")
    assert (result.exit_code, result.stderr) == (0, "")
    assert pilotage("submit", known, "--key", "x" * 201).exit_code == 2


def test_a_changed_document_or_another_store_asks_nothing(
    pilotage: Pilotage, server: FakeServer, known: Any
) -> None:
    server.answers["GET /tasks/3"] = view(3, "running", created=1.0)
    assert pilotage("submit", known).stderr == ""
    known.write_text("name: changed\ncommand: ['true']\n")
    assert pilotage("submit", known).stderr == ""


def test_what_is_remembered_is_bounded_and_may_be_unreadable(
    pilotage: Pilotage, server: FakeServer, known: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "MOST", 1)
    known.write_text("name: changed\ncommand: ['true']\n")
    pilotage("submit", known)
    remembered = pilotage.home / submissions.FILE
    assert len(json.loads(remembered.read_text())) == 1
    for content in ("", "[]", '{"a": 3}', '{"a": {}}'):
        remembered.write_text(content)
        assert pilotage("submit", known).exit_code == 0
