"""What a server answers, as errors, records and tables."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pilotage import client as module
from pilotage.client import (
    BadAnswer,
    Client,
    ClientError,
    Conflict,
    NotAllowed,
    NotFound,
    NotPilotage,
    NotSignedIn,
    OtherVersion,
    Refused,
    ServerFault,
    StillUnderWay,
    Table,
    TaskFailed,
    TooMany,
    Unreachable,
)
from pilotage.client._sync import connection
from pilotage.client.errors import foreign_error
from pilotage.client.records import ExplainedRecord, LogsRecord, Record, RemarkRecord
from tests.cli.conftest import FakeServer, server

__all__ = ["server"]

TASK = {"id": 5, "name": "t", "state": "running", "jobs": {"running": 2}, "error": ""}


@pytest.fixture
def client(server: FakeServer) -> Any:
    with Client(server.url, "secret") as found:
        yield found


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ((404, {"detail": "there is no task 5"}), NotFound, "there is no task 5"),
        ((403, {"detail": "for operators"}), NotAllowed, "for operators"),
        (
            (401, {"detail": "no valid token"}),
            NotSignedIn,
            " does not know you: no valid token; set ",
        ),
        ((409, {"detail": "not now"}), Conflict, "not now"),
        (
            (500, {"detail": "internal"}),
            ServerFault,
            "the server failed with 500 Internal Server Error: internal",
        ),
        ((500, b"<html>"), ServerFault, "the server failed with 500 Internal Server Error"),
        ((200, b"<html>"), NotPilotage, "is not Pilotage"),
        ((404, b"<html>"), NotPilotage, "is not Pilotage (404 Not Found)"),
        ((413, b"<html>"), Refused, "a proxy in front of http://127.0.0.1"),
        ((429, b"<html>"), TooMany, "refuses requests now (429 Too Many Requests): try again later"),
        ((200, ["task"]), BadAnswer, "the server's answer has a list, and not an object"),
    ],
)
def test_errors_have_the_text_of_the_server(
    client: Client, server: FakeServer, answer: tuple[int, object], kind: type[ClientError], text: str
) -> None:
    server.answers["GET /tasks/5"] = answer
    with pytest.raises(ClientError) as caught:
        client.task(5)
    assert (type(caught.value), text in str(caught.value)) == (kind, True)


def test_an_answer_that_sends_on_names_the_address() -> None:
    location = "https://broker.example.org/api/v1/tasks\x1b[31m"
    error = foreign_error(301, "Moved Permanently", location, "http://broker.example.org")
    assert isinstance(error, NotPilotage)
    assert "sends on to https://broker.example.org; set PILOTAGE_URL" in str(error)


def test_a_refusal_names_each_field(client: Client, server: FakeServer) -> None:
    fault = {"field": "ram", "message": "is negative; give MB"}
    server.answers["POST /tasks"] = (422, {"tasks": [], "refused": [{"index": 0, "errors": [fault]}]})
    with pytest.raises(Refused, match="ram: is negative; give MB") as caught:
        client.submit(name="t", ram=-1)
    assert [(one.field, one.message, one.task) for one in caught.value.faults] == [
        ("ram", "is negative; give MB", 0)
    ]


def test_a_server_that_lacks_a_request_is_told_with_both_versions(client: Client, server: FakeServer) -> None:
    server.answers["GET /queues"] = (404, {"detail": "Not Found"})
    server.answers["GET /health/live"] = {"status": "ok", "version": "0.0.9"}
    with pytest.raises(OtherVersion, match=r"has no GET /api/v1/queues: it has version 0\.0\.9, this client"):
        client.queues()


REFUSED = [
    {
        "index": 0,
        "errors": [
            {"field": "ram", "message": "is negative"},
            {"field": "after[0]", "message": "is a circle"},
        ],
    }
]


@pytest.mark.parametrize(
    "submit",
    [
        lambda client: client.submit(name="t"),
        lambda client: client.submit_all([{"name": "t"}, {"name": "u"}]),
        lambda client: client.submit_workflow("w", [{"name": "t"}, {"name": "u"}]),
        lambda client: client.map("true", [1]),
        lambda client: client.map(abs, [1]),
    ],
    ids=["submit", "submit_all", "submit_workflow", "map", "map a function"],
)
def test_every_submission_raises_each_refusal(
    client: Client, server: FakeServer, submit: Callable[[Client], object]
) -> None:
    for path in ("/tasks", "/workflows"):
        server.answers[f"POST {path}"] = (422, {"tasks": [], "refused": REFUSED})
    with pytest.raises(Refused, match=r"ram: is negative; after\[0\]: is a circle") as caught:
        submit(client)
    assert [one.task for one in caught.value.faults] == [0, 0]
    assert caught.value.answer["refused"] == REFUSED


def test_without_whole_the_refused_stand_beside_the_accepted(client: Client, server: FakeServer) -> None:
    server.answers["POST /tasks"] = (201, {"tasks": [{"id": 1, "name": "t"}], "refused": REFUSED})
    assert client.submit_all([{}, {}], whole=False)["refused"] == REFUSED


@pytest.mark.parametrize("answer", [{"accepted": [5]}, {"tasks": [{"name": "t"}], "refused": []}, []])
def test_a_submission_to_a_server_of_another_version_names_both(
    client: Client, server: FakeServer, answer: object
) -> None:
    server.answers["POST /tasks"] = (201, answer)
    server.answers["GET /health/live"] = {"status": "ok", "version": "0.0.9"}
    with pytest.raises(
        BadAnswer,
        match=r"(lacks|not an object).*: the server at http.* has version 0\.0\.9, this client has version",
    ):
        client.submit(name="t")


def test_faults_of_a_whole_submission_are_a_refusal(client: Client, server: FakeServer) -> None:
    server.answers["POST /tasks"] = (422, {"detail": [{"field": "lease", "message": "is negative"}]})
    with pytest.raises(Refused, match="lease: is negative") as caught:
        client.submit(name="t", lease=-1)
    assert not caught.value.is_of_tasks


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda client: client.queues(), "no list of queues"),
        (lambda client: client.task(5), "lacks jobs, error"),
        (lambda client: client.job(7), "lacks state"),
        (lambda client: client.tasks(), "lacks jobs, error"),
        (lambda client: client.make_token("ada"), "lacks token"),
        (lambda client: client.open_place("site", "S"), "lacks opened"),
        (lambda client: client.hold(5), "has text at task, and not an object"),
        (lambda client: client.cancel(5), "lacks id, state"),
        (lambda client: client.plan([{}]), "lacks tasks, refused"),
        (lambda client: next(client.events()), "no stream of events"),
    ],
    ids=["list", "task", "job", "rows", "token", "opened", "verb", "cancel", "plan", "stream"],
)
def test_an_answer_of_another_form_names_what_it_lacks_and_both_versions(
    client: Client, server: FakeServer, call: Callable[[Client], object], text: str
) -> None:
    task = {"id": 5, "name": "t", "state": "running"}
    server.answers |= {
        "GET /queues": {"places": []},
        "GET /tasks/5": task,
        "GET /tasks": {"tasks": [task]},
        "GET /jobs/7": {"id": 7, "status": "running"},
        "POST /tokens": {"secret": "x"},
        "DELETE /restrictions/site/S": {},
        "POST /tasks/5/hold": {"task": "held"},
        "POST /tasks/5/cancel": {"cancelled": [5]},
        "POST /plan/broker": {"lines": []},
        "GET /events": {"events": []},
        "GET /health/live": {"status": "ok", "version": "0.0.9"},
    }
    with pytest.raises(
        BadAnswer, match=r": the server at http.* has version 0\.0\.9, this client has version"
    ) as caught:
        call(client)
    assert text in str(caught.value)


def test_no_answer_says_where_and_what_to_do() -> None:
    with (
        Client("http://127.0.0.1:1") as client,
        pytest.raises(Unreachable, match="no answer from http://127"),
    ):
        client.queues()


def test_a_task_is_a_snapshot(client: Client, server: FakeServer) -> None:
    ended = {**TASK, "state": "failed", "jobs": {"failed": 2}, "error": "no queue"}
    server.answers["GET /tasks/5"] = [TASK, ended]
    task = client.task(5)
    assert (task.state, task.counts, task["name"], task.name) == ("running", {"running": 2}, "t", "t")
    assert task.refresh() is task
    assert (task.state, repr(task)) == ("failed", "<task 5 t: failed; 2 failed>")
    with pytest.raises(TaskFailed, match="task 5 failed: no queue"):
        task.check()


def test_names_and_words_say_what_is_meant(client: Client, server: FakeServer) -> None:
    server.answers["GET /tasks?name=align&mine=true&limit=1"] = {"tasks": [TASK]}
    server.answers["POST /tasks/5/hold"] = {"jobs": {}, "task": TASK}
    server.answers["POST /jobs/7/cancel"] = {"id": 7, "state": "cancelled"}
    assert client.hold("align")["task"]["id"] == 5
    assert client.cancel("job:7")["state"] == "cancelled"
    for wrong in ("pilot:1", "job:x", "a b", "queue:q"):
        with pytest.raises(Refused):
            client.cancel(wrong)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxys_fault_is_asked_again_only_where_nothing_happens_twice(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, client: Client, status: int
) -> None:
    monkeypatch.setattr(connection, "PAUSE", 0.01)
    fault = (status, b"<html>")
    accepted = (201, {"tasks": [{"id": 5, "name": "t"}], "refused": [], "warnings": []})
    server.answers["POST /tasks"] = [fault, accepted]
    server.answers["POST /workflows"] = [fault, (201, {"id": 1, "name": "w", **accepted[1]})]
    server.answers["GET /queues"] = [fault, fault, {"queues": []}]
    server.answers["POST /tasks/5/hold"] = fault
    assert client.submit_all([{"name": "t"}])["tasks"][0]["id"] == 5
    assert client.submit_workflow("w", [{"name": "t"}])["id"] == 1
    assert not client.queues()
    with pytest.raises(ServerFault, match=f"the server failed with {status}"):
        client.hold(5)
    asked = [call.partition("?")[0] for call, _ in server.requests]
    assert [asked.count(call) for call in server.answers] == [2, 2, 3, 1]
    keys = [key for key in server.keys if key]  # those of submissions
    assert keys[0] == keys[1] != keys[2] == keys[3]


def test_a_call_that_may_be_repeated_is_sent_until_the_database_is_back(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    monkeypatch.setattr(connection, "LONGEST_PAUSE", 0.01)
    away = (503, {"detail": "the store cannot be used now: no answer"}, ("Retry-After", "5"))
    accepted = (201, {"tasks": [{"id": 5, "name": "t"}], "refused": [], "warnings": []})
    server.answers["POST /tasks"] = [*[away] * 9, accepted]
    server.answers["GET /queues"] = [*[away] * 9, {"queues": []}]
    server.answers["POST /tasks/5/hold"] = away
    assert client.submit_all([{"name": "t"}])["tasks"][0]["id"] == 5
    assert not client.queues()
    with pytest.raises(ServerFault, match="the store cannot be used now: no answer"):
        client.hold(5)
    assert [call for call, _ in server.requests].count("POST /tasks/5/hold") == 1
    monkeypatch.setattr(connection, "PATIENCE", 0.0)
    server.answers["GET /queues"] = away
    with pytest.raises(ServerFault, match="the store cannot be used now"):
        client.queues()


def test_a_wait_ends_in_time(client: Client, server: FakeServer) -> None:
    server.answers["GET /tasks/5"] = TASK
    with pytest.raises(StillUnderWay, match=r"task 5 is running after 0\.1 s"):
        client.task(5).wait(timeout=0.1)
    assert issubclass(StillUnderWay, TimeoutError)


def test_tables_are_shown_by_notebooks_and_become_data_frames() -> None:
    rows = [{"id": 1, "name": "<b>"}, {"id": 2, "state": None}]
    table = Table[Record].of({"queues": rows, "total": 2}, "queues", Record)
    assert "<td>&lt;b&gt;</td>" in table._repr_html_()
    assert table.to_dict()["total"] == 2
    assert list(table.df()["id"]) == [1, 2]
    assert "<th>name</th><td>&lt;b&gt;</td>" in table[0]._repr_html_()
    assert (table[0].id, table[0]["id"], dict(table[1])) == (1, 1, rows[1])
    assert (table[0].get("colour"), "colour" in table[0]) == (None, False)
    with pytest.raises(KeyError, match="the server's answer lacks colour"):
        _ = table[0]["colour"]
    with pytest.raises(AttributeError, match="no field 'colour'"):
        _ = table[0].colour


def test_an_explanation_is_shown_as_its_text_and_remarks_with_what_to_do() -> None:
    found = ExplainedRecord({"task": 5, "lines": ["LAB  weight 0.5 = load 0.5"]})
    assert found._repr_html_() == f"<pre>{found!r}</pre>" == "<pre>LAB  weight 0.5 = load 0.5</pre>"
    given = {
        "kind": "warning",
        "text": "no queue takes its jobs",
        "rule": "B15",
        "command": "pilotage up",
    }
    remark = RemarkRecord({**given, "action": "you: ask for less"})
    assert repr(remark) == "warning: no queue takes its jobs, you: ask for less\n    do: pilotage up"


def test_the_client_loads_no_part_of_the_server() -> None:
    code = (
        "import sys; from pilotage.client import *; Client, AsyncClient\n"
        "heavy = {'asyncio', 'httpx', 'numpy', 'pandas', 'pydantic', 'rich', 'sqlalchemy', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_name_of_the_module_is_there() -> None:
    assert all(getattr(module, name) for name in module.__all__)
    assert set(module.__all__) == set(dir(module))


def test_a_table_and_logs_read_well_as_text_and_in_cells() -> None:
    page = {"tasks": [{"id": 1, "created": 1_700_000_000.0, "name": "align", "jobs": {"finished": 65}}]}
    table = Table[Record].of(page, "tasks", Record)
    assert repr(table).splitlines() == [
        "1 task",
        "id  name   jobs         created",
        "1   align  65 finished  2023-11-14 22:13:20 UTC",
    ]
    assert "<td>65 finished</td>" in table._repr_html_()
    assert repr(Table[Record].of({"queues": []}, "queues", Record)) == "0 queues"
    log = {"stream": "stdout", "head": ["a"], "left_out": 2, "tail": ["z"], "lost": 0}
    excerpt = {"job": {"id": 7, "state": "failed"}, "attempt": 2, "logs": [log]}
    lines = ["== job 7, attempt 2, failed ==", "-- stdout --", "a", "[2 lines between]", "z"]
    logs = LogsRecord({"jobs": [excerpt], "next": ""})
    assert repr(logs).splitlines() == lines
    parts = {"stream": "stderr", "parts": [{"text": "x" * 300 + "\n", "start": 0, "end": 301}], "size": 301}
    assert "x" * 300 in LogsRecord({"logs": [parts]})._repr_html_()


def test_a_data_frame_without_pandas_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Refused, match=r"pandas is not installed: pip install 'pilotage\[pandas\]'"):
        Table[Record].of({"tasks": []}, "tasks", Record).df()
