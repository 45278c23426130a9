"""The computing element of kind ``slurmrest`` before a web server that answers whatever a test wants."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.computing.slurmrest import SlurmRest
from pilotage.ports.computing import PilotOrder

from .web_server import Request, WebServer

ORDER = PilotOrder(pilot=1, name="demo-pilot-1", token="t" * 20, server_url="http://x")


class Service:
    """A slurmrestd that takes jobs, and answers a submission with ``status`` and ``body``."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.takes, self.lists = True, True
        self.answer: tuple[int, bytes] | None = (200, b'{"job_id": 12}')

    def __call__(self, asked: Request) -> tuple[int, bytes] | None:
        if asked.path.endswith("/job/submit"):
            if self.takes:
                name = json.loads(asked.body)["job"]["name"]
                self.jobs.append({"job_id": 12, "name": name, "user_name": "me", "job_state": "PENDING"})
            return self.answer
        return (200, json.dumps({"jobs": self.jobs}).encode()) if self.lists else (504, b"<html>")


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def element(service: Service, tmp_path: Path) -> Iterator[SlurmRest]:
    (tmp_path / "token").write_text("secret")
    with WebServer(service).serving() as server:
        yield SlurmRest({"endpoint": server.url, "user": "me", "token_file": str(tmp_path / "token")})


TIMED_OUT = b'{"errors": [{"description": "Socket timed out on send/recv operation"}]}'
BUT_TAKEN = b'{"job_id": 12, "errors": [{"description": "a hook failed"}]}'
LOST = [
    None,
    (500, b"<html>"),
    (500, b"{}"),
    (500, BUT_TAKEN),
    (200, BUT_TAKEN),
    (502, b""),
    (503, b"busy"),
    (504, b"<html>"),
    (200, b"{}"),
    (200, b"<html>"),
    (500, TIMED_OUT),
]


def test_a_service_of_other_versions_names_them(tmp_path: Path) -> None:
    def other(asked: Request) -> tuple[int, bytes]:
        paths: dict[str, Any] = {
            "/slurm/v0.0.40/jobs/": {},
            "/slurm/v0.0.41/jobs/": {},
            "/slurmdb/v0.0.41/jobs/": {},
        }
        is_known = asked.path == "/openapi/v3"
        return (200, json.dumps({"paths": paths}).encode()) if is_known else (404, b"not found")

    (tmp_path / "token").write_text("secret")
    with WebServer(other).serving() as server:
        element = SlurmRest({"endpoint": server.url, "user": "me", "token_file": str(tmp_path / "token")})
        with pytest.raises(OSError, match=r"serves v0\.0\.40, v0\.0\.41; Pilotage needs v0\.0\.38"):
            element.capacity()


@pytest.mark.parametrize("answer", LOST)
def test_a_job_whose_answer_is_lost_is_found_by_its_name(
    element: SlurmRest, service: Service, answer: tuple[int, bytes] | None
) -> None:
    service.answer = answer
    (found,) = element.submit([ORDER])
    assert (found.reference, found.error) == ("12/demo-pilot-1", "")
    assert len(service.jobs) == 1


@pytest.mark.parametrize("answer", LOST)
def test_a_job_that_nobody_knows_of_comes_again(
    element: SlurmRest, service: Service, answer: tuple[int, bytes] | None
) -> None:
    service.answer, service.takes = answer, False
    with pytest.raises(TimeoutError):
        element.submit([ORDER])


def test_a_refusal_is_one(element: SlurmRest, service: Service) -> None:
    service.takes = False
    service.answer = (500, b'{"errors": [{"description": "Invalid partition name specified"}]}')
    (answer,) = element.submit([ORDER])
    assert "correct option partition" in answer.error


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("RUNNING", "running"),
        (["RUNNING", "COMPLETING"], "running"),
        ([], "unknown"),
        ("FROG", "unknown"),
        (None, "unknown"),
        (["CANCELLED"], "ended"),
    ],
)
def test_states_of_other_versions_are_told(
    element: SlurmRest, service: Service, state: Any, expected: str
) -> None:
    element.submit([ORDER])
    service.jobs[0]["job_state"] = state
    service.jobs += [{"user_name": "me"}, {"user_name": "me", "job_id": None}, 5]  # type: ignore[list-item]
    assert element.poll(["12/demo-pilot-1"])["12/demo-pilot-1"].state == expected
