"""The commands against a server's answers: what they ask, what they print, how they end."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pilotage.federation import text

from .conftest import FakeServer, Pilotage, remark

FEDERATION = """\
name: north
sites: [{name: oslo}]
storages: [{name: disk, site: oslo, url: "file:///data"}]
queues:
  - {name: short, site: oslo, storage: disk}
"""


def view(state: str, jobs: dict[str, int], task: int = 12, error: str = "") -> dict[str, Any]:
    """A task as the server shows it."""
    return {
        "id": task,
        "name": "count",
        "state": state,
        "owner": "ada",
        "vo": "atlas",
        "share": "default",
        "priority": 500,
        "created": time.time() - 7300,
        "since": time.time() - 130,
        "error": error,
        "jobs": jobs,
    }


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    """A file of two tasks."""
    path = tmp_path / "tasks.yaml"
    path.write_text(
        "tasks:\n- name: count\n  nucleus: oslo\n- name: sort\n  inputs:\n  - {name: a, size: 1}\n"
    )
    return path


ACCEPTED = {
    "tasks": [{"index": 0, "id": 12, "name": "count"}, {"index": 1, "id": 13, "name": "sort"}],
    "refused": [],
}


def test_submit_prints_the_ids(pilotage: Pilotage, server: FakeServer, task_file: Path) -> None:
    server.answers["POST /tasks"] = (201, ACCEPTED)
    result = pilotage("submit", task_file)
    assert (result.exit_code, result.stdout) == (0, "12 count\n13 sort\n")
    ((_, body),) = server.requests
    assert [task["name"] for task in body["tasks"]] == ["count", "sort"]
    server.answers |= {f"GET /tasks/{task}": (404, {"detail": "it is gone"}) for task in (12, 13)}
    assert json.loads(pilotage("submit", task_file, "--json").stdout) == ACCEPTED


def test_submit_of_several_files_refuses_one_and_submits_the_others(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("a.yaml", "bad.yaml", "b.yaml")]
    for file, fault in zip(files, ("", "jobs: 0\n", ""), strict=True):
        file.write_text(f"name: {file.stem}\ncommand: ['true']\n{fault}")
    accepted = [
        {"tasks": [{"index": 0, "id": n, "name": name}], "refused": []} for n, name in ((12, "a"), (13, "b"))
    ]
    server.answers["POST /tasks"] = [(201, one) for one in accepted]
    result = pilotage("submit", *files, "--yes")
    assert (result.exit_code, result.stdout) == (2, "12 a\n13 b\n")
    assert result.stderr == f"{files[1]}:3: jobs: 0 is below 1; give 1 or more\n"
    server.answers["POST /tasks"] = [(201, one) for one in accepted]
    told = json.loads(pilotage("submit", *files, "--yes", "--json").stdout)["files"]
    assert [(one["file"], [task["id"] for task in one["tasks"]]) for one in told] == [
        (str(files[0]), [12]),
        (str(files[1]), []),
        (str(files[2]), [13]),
    ]
    assert [bool(one["error"]) for one in told] == [False, True, False]
    assert pilotage("submit", *files, "--key", "k").exit_code == 2


def test_a_server_that_fails_is_sent_no_further_file(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(f"name: {name}\ncommand: ['true']\n")
    server.answers["POST /tasks"] = [(201, ACCEPTED), (500, {"detail": "internal"})]
    result = pilotage("submit", *(tmp_path / name for name in ("a", "b", "c")), "--yes")
    assert (result.exit_code, result.stdout) == (1, "12 count\n13 sort\n")
    assert result.stderr.splitlines()[-1] == f"not submitted: {tmp_path / 'c'}"


def test_submit_of_a_bad_file_tells_every_fault_and_submits_nothing(
    pilotage: Pilotage, server: FakeServer, task_file: Path
) -> None:
    task_file.write_text("tasks:\n- name: count\n  jobs: 0\n- nam: sort\n")
    result = pilotage("submit", task_file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert [call for call, _ in server.requests] == ["POST /plan/broker"]
    assert result.stderr.splitlines() == [
        f"{task_file}:3: tasks[0].jobs: 0 is below 1; give 1 or more",
        f"{task_file}:4: tasks[1].nam: there is no such field; did you mean name?",
        f"{task_file}:4: tasks[1].name: is missing; add name:",
    ]


def test_what_the_server_refuses_is_told_with_the_line_of_the_file(
    pilotage: Pilotage, server: FakeServer, task_file: Path
) -> None:
    faults = [{"field": "inputs.0.replicas", "message": "no storage is known to hold 'a'"}]
    nucleus = [{"field": "nucleus", "message": "there is no site 'oslo'"}]
    refused = {"tasks": [], "refused": [{"index": 0, "errors": nucleus}, {"index": 1, "errors": faults}]}
    server.answers["POST /tasks"] = (422, refused)
    result = pilotage("submit", task_file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        f"{task_file}:3: tasks[0].nucleus: there is no site 'oslo'",
        f"{task_file}:6: tasks[1].inputs[0].replicas: no storage is known to hold 'a'",
    ]


def test_a_file_is_submitted_whole_by_one_request(
    pilotage: Pilotage, server: FakeServer, task_file: Path
) -> None:
    server.answers["POST /tasks"] = (201, ACCEPTED)
    assert pilotage("submit", task_file).exit_code == 0
    ((_, body),) = server.requests
    assert (body["whole"], len(body["tasks"])) == (True, 2)
    task_file.write_text("".join(f"- {{name: n{number}}}\n" for number in range(1001)))
    result = pilotage("submit", task_file)
    assert (result.exit_code, len(server.requests)) == (2, 1)
    assert result.stderr == "1001 tasks are more than the 1000 of one submission; split the file\n"


def test_a_file_that_can_be_read_once_has_its_faults_told_with_lines(
    pilotage: Pilotage, server: FakeServer, task_file: Path, tmp_path: Path
) -> None:
    fifo = tmp_path / "stream"
    os.mkfifo(fifo)
    for command, call, answer, content, told in (
        (
            ("submit",),
            "POST /tasks",
            {"tasks": [], "refused": [{"index": 1, "errors": [{"field": "share", "message": "none"}]}]},
            task_file.read_text(),
            ":4: tasks[1].share: none\n",
        ),
        (
            ("federation", "load"),
            "PUT /federation",
            {"detail": [{"field": "name", "message": "is taken"}]},
            FEDERATION,
            ":1: name: is taken\n",
        ),
    ):
        server.answers[call] = (422, answer)
        with ThreadPoolExecutor() as pool:
            pool.submit(fifo.write_text, content)
            result = pilotage(*command, fifo)
            # A command that fails before it reads leaves the writer waiting for a reader.
            os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
        assert (result.exit_code, result.stderr) == (2, f"{fifo}{told}")


@pytest.mark.parametrize(
    ("end", "said", "code"),
    [
        ("finished", "is done: 3 jobs", 0),
        ("failed", "failed: 3 done", 1),
        ("cancelled", "was cancelled: 3 done", 1),
    ],
)
def test_submit_waits_for_the_end_and_fails_with_a_task(
    pilotage: Pilotage, server: FakeServer, task_file: Path, end: str, said: str, code: int
) -> None:
    server.answers["POST /tasks"] = (201, ACCEPTED)
    server.answers["GET /tasks/12"] = [
        view("registered", {}),
        view("running", {"running": 2, "finished": 1}),
        view(end, {"finished": 3}, error="" if end == "finished" else "job 3 failed"),
    ]
    server.answers["GET /tasks/13"] = view("finished", {"finished": 1}, 13)
    result = pilotage("submit", task_file, "--watch")
    assert result.exit_code == code
    assert result.stdout.splitlines()[2:] == [
        "task 12 count is waiting for a queue: no jobs yet",
        "task 13 count is done: 1 job",
        "task 12 count is running: 2 running, 1 done",
        f"task 12 count {said}",
    ]
    assert result.stderr == ("" if code == 0 else f"task 12 {end}: job 3 failed\n")


def test_waiting_outlives_a_restart_of_the_server(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks/12"] = [
        view("running", {"running": 1}),
        (404, b"a stranger answers"),
        view("finished", {"finished": 1}),
    ]
    server.answers["GET /tasks/12/jobs"] = {"jobs": []}
    assert pilotage("status", 12, "--watch").exit_code == 0
    server.answers["GET /tasks/12"] = [(404, b"a stranger answers")]
    assert pilotage("status", 12, "--watch").exit_code == 3


def test_submit_with_wait_and_json_prints_the_tasks_at_their_end(
    pilotage: Pilotage, server: FakeServer, task_file: Path
) -> None:
    server.answers["POST /tasks"] = (201, ACCEPTED)
    for task in (12, 13):
        server.answers[f"GET /tasks/{task}"] = view("finished", {"finished": 1}, task)
    document = json.loads(pilotage("submit", task_file, "--wait", "--json").stdout)
    assert [task["state"] for task in document["tasks"]] == ["finished", "finished"]


def test_status_lists_tasks(pilotage: Pilotage, server: FakeServer) -> None:
    tasks = {"tasks": [view("running", {"running": 2, "finished": 0, "failed": 1})]}
    server.answers["GET /tasks?word=running&limit=50"] = tasks
    result = pilotage("status", "--state", "running")
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert "12 count running 2 running, 1 failed 500 ada (atlas) 2 min" in words
    assert json.loads(pilotage("status", "--state", "running", "--json").stdout) == tasks


def test_status_of_a_task_counts_its_jobs_by_queue_and_state(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks/12"] = view("running", {"running": 2, "pending": 1})
    queues = {"": {"pending": 1}, "long": {"running": 1}, "short": {"running": 1}}
    server.answers["GET /tasks/12/queues"] = {"queues": queues}
    result = pilotage("status", 12)
    assert result.stdout.startswith(
        "task 12 count: running\nsubmitted 2 h ago by ada (atlas) in share default, priority 500\n"
    )
    assert [line.split() for line in result.stdout.splitlines()[-3:]] == [
        ["(no", "queue", "yet)", "1", "waiting", "for", "a", "queue"],
        ["long", "1", "running"],
        ["short", "1", "running"],
    ]
    document = json.loads(pilotage("status", 12, "--json").stdout)
    assert document["jobs_by_queue"] == {"": {"pending": 1}, "long": {"running": 1}, "short": {"running": 1}}


def test_status_of_a_task_shows_what_its_scouts_needed(pilotage: Pilotage, server: FakeServer) -> None:
    numbers = {"memory": 400.0, "cpu_time": 12.5, "walltime": 61.23456, "out_disk": 0.0, "work_disk": None}
    found = {"finished": 9, "failed": 1, "base_time": 1.0, **numbers}
    server.answers["GET /tasks/12"] = {**view("running", {"running": 10_001}), "measured": found}
    assert pilotage("status", 12).stdout.splitlines()[2] == (
        "measured by 9 scouts: memory 400 MB, cpu_time 12.5 HS23 s/event, walltime 61.23 s, "
        "out_disk 0 MB/event"
    )


def test_status_counts_by_state_where_a_server_does_not_know_its_queues(
    pilotage: Pilotage, server: FakeServer
) -> None:
    server.answers["GET /tasks/12"] = view("running", {"running": 10_001})
    assert pilotage("status", 12).stdout.endswith("jobs: 10,001 running\n")


def test_status_watches_a_task_to_its_end(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks/12"] = [view("running", {"running": 1}), view("finished", {"finished": 1})]
    server.answers["GET /tasks/12/jobs"] = {"jobs": [{"queue": "short", "state": "finished"}]}
    lines = pilotage("status", 12, "--watch").stdout.splitlines()
    assert lines[:2] == ["task 12 count is running: 1 job", "task 12 count is done: 1 job"]


def test_tasks_are_watched_in_lines_where_there_is_no_terminal(
    pilotage: Pilotage, server: FakeServer
) -> None:
    first, second = view("running", {"running": 1}), view("finished", {"finished": 1})
    other = view("registered", {}, task=13)
    server.answers["GET /tasks?limit=50"] = [
        {"tasks": [first]},
        {"tasks": [first]},
        {"tasks": [other, second]},
        (500, {"detail": "the test is over"}),
    ]
    result = pilotage("status", "--watch")
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        [
            "task 12 count is running: 1 job",
            "task 12 count is done: 1 job",
            "task 13 count is waiting for a queue: no jobs yet",
        ],
    )


def test_an_error_is_cut_to_one_line_in_the_table_and_the_rest_is_offered_with_its_task(
    pilotage: Pilotage, server: FakeServer
) -> None:
    error = f"its only job failed; job 4: exit 1: {'x' * 300}\nTraceback\n  at line 5"
    failed = view("failed", {"failed": 1}, error=error)
    server.answers["GET /tasks?limit=50"] = {"tasks": [failed]}
    server.answers["GET /tasks/12"] = failed
    server.answers["GET /tasks/12/jobs"] = {"jobs": [{"queue": "short", "state": "failed"}]}
    lines = pilotage("status").stdout.splitlines()
    assert len(lines) == 2
    assert lines[1].rstrip().endswith("xxx...")
    told = pilotage("status", 12).stdout
    first = error.partition("\n")[0]
    assert f"error: {first}\nall of it: pilotage logs 12 --failed\n" in told
    assert told.endswith("its outputs: pilotage outputs 12; to bring them here: pilotage fetch 12\n")


def test_the_outputs_of_a_task_are_listed_with_size_and_place(pilotage: Pilotage, server: FakeServer) -> None:
    places = [{"storage": "disk", "url": "file:///data/tasks/12/5/out"}, {"storage": "gone", "url": ""}]
    of = {"checksum": "", "job": 5, "kind": "normal"}
    document = {
        "files": [
            {"name": "tasks/12/5/out", "size": 10, "replicas": places, **of},
            {"name": "tasks/12/6/out", "size": 7, "replicas": [], **of},
        ]
    }
    server.answers["GET /tasks/12/outputs"] = document
    lines = [line.split() for line in pilotage("outputs", 12).stdout.splitlines()]
    assert lines[0] == ["name", "bytes", "where"]
    assert lines[1:] == [
        ["tasks/12/5/out", "10", "file:///data/tasks/12/5/out"],
        ["tasks/12/5/out", "10", "gone"],
        ["tasks/12/6/out", "7", "at", "no", "storage", "now"],
    ]
    assert json.loads(pilotage("outputs", 12, "--json").stdout) == document
    server.answers["GET /tasks/12/outputs"] = {"files": []}
    assert pilotage("outputs", 12).stdout == "Task 12 has no outputs yet.\n"


def test_cancel_tells_each_task_and_fails_with_those_that_are_not_there(
    pilotage: Pilotage, server: FakeServer
) -> None:
    server.answers["POST /tasks/12/cancel"] = view("cancelled", {})
    server.answers["POST /tasks/5/cancel"] = (404, {"detail": "there is no task 5"})
    result = pilotage("cancel", 5, 12)
    assert (result.exit_code, result.stdout) == (1, "task 12 was cancelled\n")
    assert result.stderr == "there is no task 5\n"
    assert json.loads(pilotage("cancel", 12, "--json").stdout)["done"][0]["id"] == 12


def test_verbs_tell_what_they_did_to_tasks_and_jobs(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /tasks/12/retry"] = {
        "jobs": {"failed": 2, "closed": 1},
        "task": view("running", {"running": 1}),
    }
    server.answers["POST /jobs/345/retry"] = {"id": 345, "task": 12, "state": "defined"}
    server.answers["POST /jobs/345/cancel"] = {"id": 345, "task": 12, "state": "cancelled"}
    server.answers["POST /tasks/12/hold"] = {"jobs": {}, "task": view("running", {"running": 1})}
    server.answers["POST /tasks/12/set"] = {"jobs": {"pending": 1}, "task": view("running", {"running": 1})}
    server.answers["POST /jobs/345/set"] = {"jobs": {"defined": 1}, "lines": ["with ram 4000 instead of 1"]}
    server.answers["POST /tasks/12/release"] = (409, {"detail": "task 12 is not held"})
    told = pilotage("retry", 12, "job:345")
    assert told.stdout == (
        "task 12 is running, 3 jobs retried (2 failed, 1 cancelled before)\njob 345 is waiting for a queue\n"
    )
    assert pilotage("cancel", "job:345").stdout == "job 345 was cancelled\n"
    assert pilotage("hold", 12).stdout == "task 12 is running, 0 jobs held\n"
    refused = pilotage("release", 12)
    assert (refused.exit_code, refused.stderr) == (1, "task 12 is not held\n")
    for strange in ("pilot:3", "job:", "a b", "-1"):
        assert pilotage("retry", "--", strange).exit_code == 2
    assert pilotage("set", 12, "ram=4000", "container_name=1e3").stdout == (
        "task 12 is running, 1 job changed (1 waiting for a queue before)\n"
    )
    body = {"changes": {"ram": 4000, "container_name": "1e3"}, "dry_run": False, "anyway": False}
    assert server.requests[-1] == ("POST /tasks/12/set", body)
    assert pilotage("set", "job:345", "ram=4000", "--dry-run").stdout == (
        "job 345, 1 job would be changed (1 waiting for a queue before)\nwith ram 4000 instead of 1\n"
    )
    pilotage("retry", "job:345", "--set", "ram=4000", "--anyway")
    body = {"changes": {"ram": 4000}, "dry_run": False, "anyway": True}
    assert server.requests[-1] == ("POST /jobs/345/retry", body)
    for words in ((12,), ("ram=1",), (12, "Q.ram=1"), (12, "=1"), (12, "ram=1", "ram=2")):
        assert pilotage("set", *words).exit_code == 2


QUEUE = {
    "name": "short",
    "site": "oslo",
    "status": "online",
    "cores": 0,
    "max_memory": 4000,
    "max_walltime": 0,
    "jobs": {"running": 3},
    "pilots": {"submitted": 1, "running": 2},
    "breakers": [],
}


def test_queues_are_shown_with_their_limits_jobs_and_pilots(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /queues"] = {"queues": [QUEUE]}
    words = " ".join(pilotage("queues").stdout.split())
    assert "short oslo online any 4000 MB no limit 3 running 1 submitted, 2 running" in words
    assert json.loads(pilotage("queues", "--json").stdout) == {"queues": [QUEUE]}


def test_shares_are_shown_with_their_jobs_and_transfers(pilotage: Pilotage, server: FakeServer) -> None:
    share = {"name": "top", "vo": "atlas", "target": 0.5, "jobs": {"running": 1}, "transfers": {"queued": 2}}
    share |= {"used": None, "follows": None}
    server.answers["GET /shares"] = {"shares": [share]}
    assert "top atlas 0.5 1 running 2 queued" in " ".join(pilotage("shares").stdout.split())
    share |= {"used": 0.25, "follows": 0.7}
    assert "top atlas 0.5, used 25%: 0.7 1 running" in " ".join(pilotage("shares").stdout.split())


def test_pilots_are_asked_for_by_state_and_queue(pilotage: Pilotage, server: FakeServer) -> None:
    pilot = {
        "id": 7,
        "queue": "short",
        "state": "running",
        "kind": "generic",
        "reference": "4711",
        "matched": 3,
        "heartbeat": time.time() - 300,
        "containment": "bubblewrap",
        "created": time.time() - 90_000,
        "error": "",
        "lacks": "",
    }
    server.answers["GET /pilots?state=running&queue=short&limit=9"] = {"pilots": [pilot], "breakers": []}
    result = pilotage("pilots", "--state", "running", "--queue", "short", "--limit", 9)
    assert "7 short running generic 4711 3 5 min bubblewrap 25 h" in " ".join(result.stdout.split())


def test_p12_breakers_are_told_with_empty_pilots(pilotage: Pilotage, server: FakeServer) -> None:
    breaker = {
        "what": "pilots at short",
        "state": "open",
        "until": 1_700_000_000.0,
        "reason": "pilots were sent in vain, 2 in a row",
        "rule": "P12",
        "probe": "one pilot",
    }
    server.answers["GET /pilots?empty=true&limit=100"] = {"pilots": [], "breakers": [breaker]}
    told = pilotage("pilots", "--empty").stdout
    assert (
        "pilots at short: circuit breaker open, 2023-11-14 22:13:20 UTC: pilots were sent in vain, 2 in"
        in told
    )
    breaker["state"] = "half-open"
    told = pilotage("pilots", "--empty").stdout
    assert "pilots at short: circuit breaker half-open, one pilot probes next: pilots were" in told


def test_transfers_are_shown(pilotage: Pilotage, server: FakeServer) -> None:
    transfer = {
        "id": 3,
        "file": "a",
        "source": "disk",
        "destination": "tape",
        "share": "atlas-upload",
        "priority": 25,
        "state": "failed",
        "since": time.time() - 7200,
        "error": "no route [to host]",
    }
    server.answers["GET /transfers"] = {"transfers": [transfer]}
    words = " ".join(pilotage("transfers").stdout.split())
    assert "3 a disk tape atlas-upload 25 failed 2 h no route [to host]" in words


def test_transfers_are_prioritised(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /transfers/priorities"] = {"changed": [3]}
    result = pilotage("transfers", "--prioritise", "3=90", "--prioritise", "4=90")
    assert server.requests[0][1] == {"priorities": [{"id": 3, "priority": 90}, {"id": 4, "priority": 90}]}
    assert (result.exit_code, result.stdout) == (1, "transfer 3 has priority 90\n")
    assert result.stderr == "not changed, since no such transfer is live: 4\n"


@pytest.mark.parametrize("words", ["3", "3=", "=3", "a=3", "3=0", "3=101", "3=4=5"])
def test_a_priority_that_is_none_is_bad_input(pilotage: Pilotage, server: FakeServer, words: str) -> None:
    result = pilotage("transfers", "--prioritise", words)
    assert (result.exit_code, server.requests) == (2, [])
    assert f"--prioritise {words!r}" in result.stderr


@pytest.mark.parametrize("command", [("status",), ("queues",), ("shares",), ("pilots",), ("transfers",)])
def test_where_there_is_nothing_a_sentence_says_so(
    pilotage: Pilotage, server: FakeServer, command: tuple[str, ...]
) -> None:
    name = {"status": "tasks"}.get(command[0], command[0])
    server.answers[f"GET /{name}"] = {name: []}
    assert pilotage(*command).stdout.startswith("There are no ")


@pytest.mark.parametrize(
    ("words", "name", "told"),
    [
        (("status", "--state", "failed"), "tasks", "No task matches."),
        (("transfers", "--state", "failed"), "transfers", "No transfer is failed."),
        (("pilots", "--queue", "short"), "pilots", "No pilot matches."),
    ],
)
def test_where_nothing_matches_it_is_not_said_that_there_is_nothing(
    pilotage: Pilotage, server: FakeServer, words: tuple[str, ...], name: str, told: str
) -> None:
    server.answers[f"GET /{name}"] = {name: [], "breakers": []}
    assert pilotage(*words).stdout == f"{told}\n"


def test_transfers_that_are_watched_are_one_document_for_programs(
    pilotage: Pilotage, server: FakeServer
) -> None:
    server.answers["GET /transfers"] = {"transfers": []}
    assert json.loads(pilotage("transfers", "--watch", "--json").stdout) == {"transfers": []}


def test_a_task_without_a_dataset_has_nothing_to_publish(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /tasks/12/publish"] = {"remarks": []}
    result = pilotage("publish", 12)
    assert (result.exit_code, result.stderr) == (1, "task 12 has no output_dataset\n")
    remarks = [remark("outputs in x: 3 files", "publication"), remark("it waits", "wait")]
    server.answers["POST /tasks/12/publish"] = {"remarks": remarks}
    assert pilotage("publish", 12).stdout == "outputs in x: 3 files\n"


def test_a_federation_is_loaded(pilotage: Pilotage, server: FakeServer, tmp_path: Path) -> None:
    path = tmp_path / "federation.yaml"
    path.write_text(FEDERATION)
    server.answers["PUT /federation"] = {"version": 3}
    result = pilotage("federation", "load", path)
    assert (result.exit_code, result.stdout) == (0, "version 3 of north is in force\n")
    assert server.requests[0][1]["queues"][0]["name"] == "short"


def test_a_federation_that_would_lose_work_is_refused_with_what_would_work(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    path = tmp_path / "federation.yaml"
    path.write_text(FEDERATION)
    refusal = "queue lab is removed, with 2 running jobs. `force` does it all the same"
    server.answers["PUT /federation"] = (409, {"detail": refusal})
    result = pilotage("federation", "load", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "with 2 running jobs. --force does it all the same" in result.stderr


def test_a_dry_run_shows_the_differences_and_what_follows(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    path = tmp_path / "federation.yaml"
    path.write_text(FEDERATION)
    lost = "queue lab is removed, with 2 running jobs: lost"
    answer = {"version": 3, "changes": ["- queues.lab"], "effects": [lost], "losses": [lost]}
    server.answers["PUT /federation"] = answer
    result = pilotage("federation", "load", path, "--dry-run")
    assert result.stdout.splitlines()[:2] == ["- queues.lab", lost]
    assert "without --force" in result.stdout
    assert "in force" not in result.stdout


def test_a_federation_that_the_server_refuses_is_told_with_lines(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    path = tmp_path / "federation.yaml"
    path.write_text(FEDERATION)
    fault = {"field": "queues[0].computing_element", "message": "has a kind that this server lacks"}
    server.answers["PUT /federation"] = (422, {"detail": [fault]})
    result = pilotage("federation", "load", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"{path}:5: queues[0].computing_element: has a kind that this server lacks\n"


def test_the_federation_in_force_is_shown_as_yaml_and_json(pilotage: Pilotage, server: FakeServer) -> None:
    document = text.parse(FEDERATION)
    server.answers["GET /federation"] = document
    assert text.parse(pilotage("federation", "show").stdout) == document
    assert json.loads(pilotage("federation", "show", "--json").stdout) == document


def test_the_world_is_saved_as_yaml_or_json(pilotage: Pilotage, server: FakeServer, tmp_path: Path) -> None:
    document = {"time": 1e9, "seed": 7, "federation": text.parse(FEDERATION), "jobs": []}
    server.answers["GET /world"] = document
    assert text.parse(pilotage("world").stdout) == document
    assert json.loads(pilotage("world", "--json").stdout) == document
    for name in ("world.yaml", "world.json"):
        result = pilotage("world", "--output", tmp_path / name)
        assert (result.exit_code, result.stdout) == (0, "")
        assert text.parse((tmp_path / name).read_text()) == document
    assert (tmp_path / "world.json").read_text().startswith("{")
    assert pilotage("world", "--output", tmp_path / "nowhere" / "world.yaml").exit_code == 2


def test_on_narrow_screens_nothing_is_left_out(
    pilotage: Pilotage, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotage.cli.terminal.output.width", lambda _=False: 50)
    server.answers["GET /queues"] = {"queues": [QUEUE]}
    lines = pilotage("queues").stdout.splitlines()
    assert lines[0].split() == ["queue", "status", "jobs", "pilots"]
    assert max(map(len, lines)) <= 50
    told = " ".join(line.strip() for line in lines)
    assert f"site {QUEUE['site']}" in told
    assert "memory 4000 MB" in told
    error = "exit 1: " + "word " * 14
    server.answers["GET /tasks?limit=50"] = {"tasks": [view("failed", {"failed": 1}, error=error)]}
    told = " ".join(line.strip() for line in pilotage("status").stdout.splitlines())
    assert "owner ada (atlas)" in told
    assert "error exit 1: word word" in told


HOSTILE = "\x1b[2Jgone\x07\x9b31m\u202egnp.exe\r"
ESCAPED = "\\x1b[2Jgone\\x07\\x9b31m\\u202egnp.exe\\x0d"


def test_control_characters_in_names_and_errors_are_shown_and_never_sent(
    pilotage: Pilotage, server: FakeServer
) -> None:
    hostile = {**view("failed", {"failed": 1}, error=HOSTILE), "name": HOSTILE, "owner": HOSTILE}
    server.answers["GET /tasks?limit=50"] = {"tasks": [hostile]}
    server.answers["GET /tasks/12"] = hostile
    server.answers["GET /tasks/12/jobs"] = {"jobs": [{"queue": HOSTILE, "state": "failed"}]}
    server.answers["GET /tasks/12/explain"] = {"choices": [], "explanations": [], "lines": [HOSTILE]}
    server.answers["POST /tasks/12/cancel"] = (404, {"detail": HOSTILE})
    for words in (
        ["status"],
        ["status", "12"],
        ["status", "12", "--watch"],
        ["explain", "12"],
        ["cancel", "12"],
    ):
        result = pilotage(*words)
        told = result.stdout + result.stderr
        assert ESCAPED in told, words
        assert not set("\x1b\x07\x9b\u202e\r") & set(told), words
    told = pilotage("status", "--json").stdout
    assert not set("\x1b\x07\x9b\u202e\r") & set(told)
    assert json.loads(told) == {"tasks": [hostile]}


def test_a_task_that_waits_says_for_what_and_which_command_tells_why(
    pilotage: Pilotage, server: FakeServer
) -> None:
    waits = view("running", {"pending": 3}) | {"remarks": [remark("3 jobs wait for a queue", "wait")]}
    server.answers["GET /tasks/12"] = waits
    server.answers["GET /tasks/12/jobs"] = {"jobs": []}
    assert "3 jobs wait for a queue\nmore: pilotage explain 12\n" in pilotage("status", "12").stdout
    server.answers["GET /tasks/12"] = [waits, view("finished", {"finished": 1})]
    told = pilotage("status", "12", "--watch").stdout
    assert "; 3 jobs wait for a queue; more: pilotage explain 12" in told


EXPLAINED = {
    "choices": [],
    "explanations": [],
    "lines": ["task 12: none of 2 queues can take them", "  status and room", "    a payload's (B4)"],
}


def test_a_task_is_explained_as_the_server_tells_it(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks/12/explain"] = {"task": view("running", {"pending": 1}), **EXPLAINED}
    assert (
        pilotage("explain", 12).stdout
        == "task 12: none of 2 queues can take them\n  status and room\n    a payload's (B4)\n"
    )
    pilotage("explain", 12, "--rules")
    paths = [path for path, _ in server.requests]
    assert paths == ["GET /tasks/12/explain?limit=5", "GET /tasks/12/explain?limit=5&rules=true"]
    server.answers["GET /tasks/12/explain"] = {**EXPLAINED, "choices": [{}] * 2}
    assert pilotage("explain", 12, "--limit", 2).stdout.endswith("at most 2; older ones too: --limit\n")
    assert "older ones" not in pilotage("explain", 12, "--limit", 3).stdout
    server.answers["GET /tasks/12/explain"] = {"task": view("running", {"pending": 1}), **EXPLAINED}
    document = json.loads(pilotage("explain", 12, "--json").stdout)
    assert document["lines"] == EXPLAINED["lines"]
    assert document["task"]["id"] == 12


def test_a_queue_is_explained_alone_and_for_a_task(pilotage: Pilotage, server: FakeServer) -> None:
    answer = {"queue": "north", "lines": ["queue north of site N: online"]}
    server.answers["GET /queues/north/explain"] = answer
    server.answers["GET /tasks/12/queues/north/explain"] = answer
    for words in (("--queue", "north"), ("queue:north",)):
        assert pilotage("explain", *words).stdout == "queue north of site N: online\n"
    pilotage("explain", 12, "--queue", "north")
    assert [path for path, _ in server.requests] == [
        *["GET /queues/north/explain"] * 2,
        "GET /tasks/12/queues/north/explain",
    ]
    assert pilotage("explain", "job:3", "--queue", "north").exit_code == 2
    assert pilotage("explain", 12, "--queue", "north", "--what-if", "ram=1").exit_code == 2
    assert pilotage("explain", 12, "--rules", "--what-if", "ram=1").exit_code == 2


def test_warnings_are_told_as_such_by_status_and_submit(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    trouble = "nothing starts: no pilot of north has ever called home"
    warns = view("running", {"activated": 1}) | {"remarks": [remark(trouble, "warning")]}
    server.answers["GET /tasks/12"] = warns
    server.answers["GET /tasks/12/queues"] = {"queues": {}}
    assert f"warning: {trouble}" in pilotage("status", 12).stdout
    file = tmp_path / "task.yaml"
    file.write_text("name: t\njobs: 1\n")
    accepted = {"index": 0, "id": 12, "name": "t"}
    server.answers["POST /tasks"] = {"tasks": [accepted], "refused": [], "warnings": [trouble]}
    assert f"warning: {trouble}" in pilotage("submit", file).stderr


@pytest.mark.parametrize("words", [("job:345",), ("JOB:345",), ("--job", "345")])
def test_a_job_is_explained_by_its_number(
    pilotage: Pilotage, server: FakeServer, words: tuple[str, ...]
) -> None:
    server.answers["GET /jobs/345/explain"] = EXPLAINED
    assert pilotage("explain", *words, "--rules").stdout.splitlines() == EXPLAINED["lines"]


@pytest.mark.parametrize("words", [(), ("12", "--job", "3"), ("a b",), ("job:x",), ("job:",), ("-3",)])
def test_what_cannot_be_explained_is_bad_input(
    pilotage: Pilotage, server: FakeServer, words: tuple[str, ...]
) -> None:
    assert (pilotage("explain", *words).exit_code, server.requests) == (2, [])


@pytest.mark.parametrize(
    ("moved", "jobs", "said"),
    [
        ({}, {"finished": 2, "failed": 1}, "is finishing: it ends with the results of 2 jobs"),
        ({"closed": 1}, {"merging": 1, "failed": 1}, "is finishing: it ends with the results of 1 job"),
        (
            {"activated": 2},
            {"merging": 3, "closed": 2},
            "is finishing: it ends with the results of 3 jobs; 2 jobs cancelled",
        ),
    ],
)
def test_finish_says_with_what_a_task_ends(
    pilotage: Pilotage, server: FakeServer, moved: dict[str, int], jobs: dict[str, int], said: str
) -> None:
    server.answers["POST /tasks/12/finish"] = {"jobs": moved, "task": view("running", jobs)}
    assert pilotage("finish", 12).stdout == f"task 12 {said}\n"
