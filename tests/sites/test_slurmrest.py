"""The computing element of kind ``slurmrest`` against a real slurmrestd."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.loader import load
from pilotage.adapters.computing.slurmrest import SlurmRest
from pilotage.adapters.computing.web_service import AnswerLost, WebAnswer, WebService
from pilotage.model.records.federation import ComputingElement, OwnerCredential
from pilotage.ports.computing import PilotSize
from tests.agent.fake_pilot_server import TOKEN, FakeServer
from tests.waiting import wait_for

from .slurm import Slurm
from .test_slurm import orders


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(idle=600).serving() as fake:
        yield fake


def test_it_keeps_the_contract(rest_options: dict[str, Any], server: FakeServer) -> None:
    assert violations(SlurmRest, rest_options, orders(server, 3)) == []


def test_a_pilot_calls_home_and_its_token_is_nowhere_but_in_its_script(
    rest_options: dict[str, Any], server: FakeServer, slurm: Slurm, tmp_path: Path
) -> None:
    place = tmp_path / "node"
    changes = {"directory": str(place), "gres": "gpu:1", "environment": {"PLACE": "it's here"}}
    element = SlurmRest({**rest_options, **changes})
    (answer,) = element.submit(orders(server, 1, cores=2, memory=500, slots=2))
    wait_for(lambda: server.matches, f"it asks for work: {answer}")
    assert {name: server.matches[0][name] for name in ("cores", "memory", "max_jobs", "gpus")} == {
        "gpus": 1,
        "cores": 2,
        "memory": 500,
        "max_jobs": 2,
    }
    full = element.capacity()
    assert (full.slots, full.running, full.waiting) == (16, 1, 0)
    shown = slurm.call("scontrol", "show", "job", "-d", answer.reference.split("/")[0])
    assert TOKEN not in shown
    assert "Requeue=0" in shown
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        assert TOKEN.encode() not in told
    element.cancel([answer.reference])
    wait_for(lambda: element.poll([answer.reference])[answer.reference].state == "ended", "it ends")
    wait_for(lambda: not list(place.iterdir()), "its directory is removed")


def test_an_answer_that_is_lost_is_found_by_the_pilots_name(
    rest_options: dict[str, Any], server: FakeServer, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = orders(server, 2)
    call = WebService.call

    def lost(service: WebService, method: str, path: str, **how: Any) -> WebAnswer:
        answer = call(service, method, path, **how)
        if method == "POST":
            raise AnswerLost("no answer")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(WebService, "call", lost)
        found = SlurmRest(rest_options).submit(asked)
    answers = SlurmRest(rest_options).submit(asked)
    assert all(answer.reference for answer in answers)
    assert [one.reference for one in found] == [one.reference for one in answers]
    assert len(slurm.call("squeue", "--me", "-h").splitlines()) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"partition": "nowhere"}, "correct option partition"),
        ({"gres": "gpu:3"}, "no node has what the queue's pilots ask for"),
        ({"gres": "tape:1"}, "Failure during parsing"),
        ({"constraint": "nowhere"}, "correct option constraint"),
        ({"reservation": "nowhere"}, "reservation"),
    ],
)
def test_what_slurm_refuses_says_who_can_mend_it(
    rest_options: dict[str, Any], server: FakeServer, changes: dict[str, str], words: str
) -> None:
    (answer,) = SlurmRest({**rest_options, **changes}).submit(orders(server, 1))
    assert words in answer.error
    assert TOKEN not in answer.error


def test_a_token_that_is_not_accepted_says_so(
    rest_options: dict[str, Any], server: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "bad").write_text("a.b.c")
    element = SlurmRest({**rest_options, "token_file": str(tmp_path / "bad")})
    with pytest.raises(OSError, match="renew token_file"):
        element.submit(orders(server, 1))


def test_p9_the_pilots_of_a_person_belong_to_the_persons_account(
    rest_options: dict[str, Any], server: FakeServer, slurm: Slurm, tmp_path: Path
) -> None:
    """Each account sees and ends its own pilots; a renewed token is seen at the next call."""
    token = tmp_path / "daemon.token"

    def renew() -> None:
        said = slurm.call("scontrol", "token", "username=daemon", "lifespan=600")
        token.write_text(said.strip().partition("=")[2])

    own = OwnerCredential(vo="ligo", person="alice", options={"user": "daemon", "token_file": str(token)})
    declared = ComputingElement(kind="slurmrest", options=rest_options, credentials=(own,))
    common, alice = load(declared.at("")), load(declared.at("", own.name))
    token.write_text("a.b.c")
    (first, second) = orders(server, 2, cores=16)
    (running,) = common.submit([first])
    with pytest.raises(OSError, match="renew token_file"):
        alice.submit([second])
    renew()
    (waiting,) = alice.submit([second])
    number = waiting.reference.split("/")[0]
    assert slurm.call("squeue", "-h", "-o", "%u", "-j", number).strip() == "daemon"
    assert alice.poll([waiting.reference, running.reference])[waiting.reference].state == "waiting"
    assert alice.poll([running.reference])[running.reference].missing
    assert common.poll([waiting.reference])[waiting.reference].missing
    common.cancel([waiting.reference])
    assert alice.poll([waiting.reference])[waiting.reference].state == "waiting"
    renew()
    alice.cancel([waiting.reference, running.reference])
    wait_for(lambda: alice.poll([waiting.reference])[waiting.reference].state == "ended", "it ends")
    assert common.poll([running.reference])[running.reference].state in ("waiting", "running")
    common.cancel([running.reference])


def test_a_service_that_is_down_ends_nothing(rest_options: dict[str, Any]) -> None:
    element = SlurmRest({**rest_options, "endpoint": "http://127.0.0.1:9"})
    with pytest.raises(OSError, match="cannot be reached"):
        element.poll(["1/here-pilot-1"])


@pytest.mark.parametrize(
    ("partition", "size", "count"),
    [
        ("", {}, 16),
        ("", {"cores": 17}, 0),
        ("main", {"walltime": 172_801}, 0),
        ("urgent", {"walltime": 3600}, 16),
    ],
)
def test_p8_it_tells_what_it_would_run(
    rest_options: dict[str, Any], partition: str, size: dict[str, float], count: int
) -> None:
    asked = PilotSize(**{"cores": 1, "memory": 0, "walltime": 3600, **size})  # type: ignore[arg-type]
    assert SlurmRest({**rest_options, "partition": partition}).resources(asked) == count


def test_a_node_without_a_python_says_so(
    rest_options: dict[str, Any], server: FakeServer, tmp_path: Path
) -> None:
    for name in ("python3", *(f"python3.{n}" for n in range(9, 15))):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    element = SlurmRest({**rest_options, "environment": {"PATH": path}, "python": "python3.99"})
    (answer,) = element.submit(orders(server, 1))
    wait_for(lambda: element.poll([answer.reference])[answer.reference].state == "ended", "it ends")
    status = element.poll([answer.reference])[answer.reference]
    assert status.exit_code == 78
    assert "name one with option python" in status.reason
