"""The computing element of kind ``arc`` before a web server that answers whatever a test wants."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pilotage.adapters.computing import web_service
from pilotage.adapters.computing.arc import Arc
from pilotage.adapters.computing.arc.job_descriptions import NAMESPACE, adl
from pilotage.ports.computing import PilotOrder, PilotSize

from .web_server import Request, WebServer

ORDER = PilotOrder(pilot=1, name="bed-pilot-1", token="the-secret", server_url="http://x")


class Answers:
    """Answers by the beginning of method and path; what is not set is an empty 200."""

    def __init__(self) -> None:
        self.set: dict[str, Any] = {}

    def __call__(self, asked: Request) -> tuple[int, bytes] | None:
        line = f"{asked.method} {asked.path}"
        for start in sorted(self.set, key=len, reverse=True):
            if line.startswith(start):
                found = self.set[start]
                if found is None:
                    return None
                if isinstance(found, int):
                    return found, b""
                return 200, found if isinstance(found, bytes) else json.dumps(found).encode()
        return 200, b""


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def server(answers: Answers) -> Iterator[WebServer]:
    with WebServer(answers).serving() as server:
        yield server


@pytest.fixture
def element(server: WebServer) -> Arc:
    return Arc({"endpoint": f"{server.url}/arex"})


JOBS = "/arex/rest/1.0/jobs"
CREATED = {"status-code": "201", "reason": "Created", "id": "J1", "state": "ACCEPTING"}


def test_no_value_of_an_order_becomes_markup() -> None:
    name = 'x</Name><Executable>&"'
    order = PilotOrder(pilot=1, name=name, token="the-secret", server_url="http://x", cores=4, memory=2001)
    described = adl([order, ORDER], "<q>", ["ENV/A"])
    jobs = ElementTree.fromstring(described)
    space = {"a": NAMESPACE}
    assert jobs.findtext(".//a:Name", namespaces=space) == name
    assert len(jobs.findall(".//a:Executable", space)) == 2
    assert jobs.findtext(".//a:QueueName", namespaces=space) == "<q>"
    assert jobs.findtext(".//a:IndividualPhysicalMemory", namespaces=space) == "501000000"
    assert jobs.findtext(".//a:SlotsPerHost", namespaces=space) == "4"
    assert b"the-secret" not in described


def test_one_entry_is_a_list_of_one(server: WebServer, element: Arc, answers: Answers) -> None:
    answers.set[f"POST {JOBS}?action=new"] = {"job": CREATED}
    (answer,) = element.submit([ORDER])
    assert answer.reference == f"{server.url}/arex/J1"
    uploads = {asked.path: asked.body for asked in server.requests if asked.method == "PUT"}
    assert uploads[f"{JOBS}/J1/session/token"] == b"the-secret"
    assert list(uploads) == [f"{JOBS}/J1/session/pilot", f"{JOBS}/J1/session/token"]
    assert not any(b"the-secret" in asked.body for asked in server.requests if asked.method == "POST")


def test_a_creation_without_an_answer_is_not_repeated(
    server: WebServer, element: Arc, answers: Answers
) -> None:
    answers.set[f"POST {JOBS}?action=new"] = None
    with pytest.raises(TimeoutError, match="no answer"):
        element.submit([ORDER])
    assert sum("action=new" in asked.path for asked in server.requests) == 1


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_creation_that_a_gateway_gave_up_is_in_doubt(element: Arc, answers: Answers, status: int) -> None:
    answers.set[f"POST {JOBS}?action=new"] = status
    with pytest.raises(TimeoutError, match=str(status)):
        element.submit([ORDER])


def test_a_question_without_an_answer_is_asked_once_more(
    server: WebServer, element: Arc, answers: Answers
) -> None:
    answers.set[f"POST {JOBS}?action=status"] = None
    with pytest.raises(OSError, match="no answer"):
        element.poll([f"{server.url}/arex/J1"])
    assert len(server.requests) == 2


def test_a_pilot_whose_files_are_not_taken_is_killed(
    server: WebServer, element: Arc, answers: Answers
) -> None:
    answers.set |= {f"POST {JOBS}?action=new": {"job": [CREATED]}, f"PUT {JOBS}/J1/session/token": None}
    (answer,) = element.submit([ORDER])
    assert answer.error.startswith("bed-pilot-1: its files are not taken")
    assert "the-secret" not in answer.error
    assert json.loads(server.requests[-1].body) == {"job": [{"id": "J1"}]}
    assert server.requests[-1].path.endswith("action=kill")


@pytest.mark.parametrize(
    "nonsense",
    [b"<html>", b"[" * 100_000, b"7", {"job": 5}, {"job": ["x"]}, b"\xff", {"jobs": [], "job": [None]}],
)
def test_nonsense_is_a_system_that_cannot_be_seen(
    server: WebServer, element: Arc, answers: Answers, nonsense: Any
) -> None:
    answers.set[f"POST {JOBS}?action=status"] = nonsense
    with pytest.raises(OSError, match=r"JSON|list of jobs"):
        element.poll([f"{server.url}/arex/J1"])


@pytest.mark.parametrize(
    ("entry", "state"),
    [
        ({"status-code": "200", "id": "J1", "state": "FINISHED"}, "ended"),
        ({"status-code": 200, "id": "J1", "state": "RUNNING"}, "running"),
        ({"status-code": "200", "id": "J1", "state": "HELD"}, "stuck"),
        ({"status-code": "200", "id": "J1", "state": "TOASTED"}, "unknown"),
        ({"status-code": "200", "id": "J1", "state": ["FINISHED"]}, "unknown"),
        ({"status-code": "200", "id": "J2", "state": "FINISHED"}, "unknown"),
        ({"status-code": "404", "id": "J1", "state": "None"}, "unknown"),
        ({"status-code": "500", "id": "J1", "state": "FINISHED"}, "unknown"),
    ],
)
def test_only_what_ended_is_ended(
    server: WebServer, element: Arc, answers: Answers, entry: Any, state: str
) -> None:
    answers.set[f"POST {JOBS}?action=status"] = {"job": [entry]}
    reference = f"{server.url}/arex/J1"
    assert element.poll([reference])[reference].state == state


def test_what_is_not_ended_is_told(server: WebServer, element: Arc, answers: Answers) -> None:
    done, gone = {"status-code": "202", "id": "J1"}, {"status-code": "404", "id": "J2"}
    answers.set[f"POST {JOBS}?action=kill"] = {"job": [done, gone]}
    references = [f"{server.url}/arex/J{number}" for number in (1, 2, 3)]
    element.cancel(references)
    refused = {"status-code": "500", "id": "J3", "reason": "Disk is full"}
    answers.set[f"POST {JOBS}?action=kill"] = {"job": [done, gone, refused]}
    with pytest.raises(OSError, match="does not end 1 job: Disk is full"):
        element.cancel(references)


def test_an_answer_without_end_is_cut(
    server: WebServer, element: Arc, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_service, "LARGEST_ANSWER", 1000)
    answers.set[f"POST {JOBS}?action=status"] = b" " * 2000
    with pytest.raises(OSError, match="longer than"):
        element.poll([f"{server.url}/arex/J1"])


def test_a_token_is_read_from_its_file_each_time(server: WebServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    element = Arc({"endpoint": f"{server.url}/arex", "token_file": str(file)})
    with pytest.raises(OSError, match="No such file"):
        element.submit([ORDER])
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        element.poll([f"{server.url}/arex/J1"])
        assert server.requests[-1].headers["Authorization"] == f"Bearer {token}"
    file.write_text("two\nlines")
    with pytest.raises(OSError, match="holds no token") as raised:
        element.poll([f"{server.url}/arex/J1"])
    assert "lines" not in str(raised.value)


def information(**service: Any) -> dict[str, Any]:
    """What a service says of itself."""
    return {"Domains": {"AdminDomain": {"Services": {"ComputingService": service}}}}


def test_capacity_is_what_the_service_says(element: Arc, answers: Answers) -> None:
    document = information(ComputingManager=[{"TotalSlots": "64", "ProductName": "SLURM"}])
    answers.set |= {"GET /arex/rest/1.0/info": document, f"GET {JOBS}": {"job": {"id": "J", "state": "HELD"}}}
    found = element.capacity()
    assert (found.slots, found.running, found.waiting) == (64, 0, 1)
    answers.set["GET /arex/rest/1.0/info"] = {"Domains": []}
    assert element.capacity().slots is None


@pytest.mark.parametrize(
    ("queue", "size", "count"),
    [
        ("", {}, 64),
        ("long", {"cores": 8}, 8),
        ("LONG", {}, 64),
        ("short", {}, 0),
        ("short", {"walltime": 600}, 64),
        ("closed", {}, 0),
        ("nowhere", {}, 0),
        ("", {"cores": 17}, 0),
        ("", {"memory": 64_001}, 0),
        ("", {"walltime": 90_000}, 0),
    ],
)
def test_p8_resources_are_those_that_the_service_publishes(
    server: WebServer, answers: Answers, queue: str, size: dict[str, Any], count: int
) -> None:
    node = {"LogicalCPUs": "16", "MainMemorySize": "64000"}
    manager = {
        "TotalSlots": "64",
        "LogicalCPUDistribution": "8:2 16:3",
        "ExecutionEnvironments": {"ExecutionEnvironment": [{"LogicalCPUs": "8"}, node]},
    }
    shares = [
        {"Name": "LONG", "MappingQueue": "long", "MaxWallTime": "86400", "ServingState": "production"},
        {"MappingQueue": "short", "MaxWallTime": "1800"},
        {"MappingQueue": "closed", "ServingState": "closed"},
    ]
    if "memory" in size:
        manager["ExecutionEnvironments"] = {"ExecutionEnvironment": node}
    answers.set["GET /arex/rest/1.0/info"] = information(ComputingManager=manager, ComputingShare=shares)
    asked = PilotSize(**{"cores": 1, "memory": 0, "walltime": 3600, **size})
    named = {"queue": queue} if queue else {}
    assert Arc({"endpoint": f"{server.url}/arex", **named}).resources(asked) == count


@pytest.mark.parametrize(
    "service",
    [{}, {"ComputingShare": "x"}, {"ComputingShare": [7]}, {"ComputingShare": {}, "ComputingManager": 5}],
)
def test_p8_nobody_can_tell_where_the_service_tells_nothing(
    element: Arc, answers: Answers, service: dict[str, Any]
) -> None:
    answers.set["GET /arex/rest/1.0/info"] = information(**service)
    assert element.resources(PilotSize(cores=1, memory=0, walltime=60)) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "endpoint"),
        ({"endpoint": "ce.example", "qeue": "x"}, r"unknown options \['qeue'\]"),
        ({"endpoint": "http://ce.example/arex", "token_file": "/t"}, "unencrypted"),
        ({"endpoint": "gsiftp://ce.example:2811/jobs"}, "is not a URL like https"),
        ({"endpoint": "https://user:word@ce.example/arex"}, "is not a URL like https"),
        ({"endpoint": "ce.example", "queue": "a b"}, "queue"),
        ({"endpoint": "ce.example", "queue": "-x"}, "queue"),
        ({"endpoint": "ce.example", "runtime_environments": "ENV/A"}, "runtime_environments"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Arc(options)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("ce.example", "https://ce.example/arex"),
        ("ce.example:443", "https://ce.example:443/arex"),
        ("https://ce.example:443/arex/", "https://ce.example:443/arex"),
        ("https://ce.example/arc2", "https://ce.example/arc2"),
    ],
)
def test_an_endpoint_may_be_short(endpoint: str, url: str) -> None:
    element = Arc({"endpoint": endpoint})
    assert element.poll([f"{url}/../x", "https://elsewhere/arex/J1", f"{url}x/J1"]).keys() == {
        f"{url}/../x",
        "https://elsewhere/arex/J1",
        f"{url}x/J1",
    }, "none of them is asked for"
    assert element._endpoint == url
