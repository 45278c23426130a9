"""Pilots at a real ARC computing element: A-REX of Debian's packages, its fork backend, over HTTPS."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from pilotage.adapters.computing.arc import Arc
from pilotage.adapters.computing.arc.rest_calls import ArcJob, ArcJobs
from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.loader import load
from pilotage.adapters.computing.web_service import AnswerLost
from pilotage.model.records.federation import ComputingElement, OwnerCredential
from pilotage.ports.computing import PilotOrder, PilotSize
from tests.agent.fake_pilot_server import TOKEN, FakeServer
from tests.waiting import wait_for

from .arc import ArcServer

pytestmark = pytest.mark.slow


@pytest.fixture
def home() -> Iterator[FakeServer]:
    """The server that pilots call, which has no work for them."""
    with FakeServer(idle=600).serving() as server:
        yield server


def orders(home: FakeServer, *names: str) -> list[PilotOrder]:
    return [
        PilotOrder(pilot=at, name=name, token=TOKEN, server_url=home.url, cores=2, memory=1000, walltime=3600)
        for at, name in enumerate(names, 1)
    ]


def agents(home: FakeServer) -> list[psutil.Process]:
    """The agents that call this server."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if f"--url={home.url}" in (process.info["cmdline"] or []) and "-I" in process.info["cmdline"]
    ]


def test_it_keeps_the_contract(arc_server: ArcServer, home: FakeServer) -> None:
    asked = orders(home, "bed-pilot-1", "bed-pilot-2", "bed-pilot-3")
    assert violations(Arc, arc_server.options, asked) == []


def test_a_pilot_calls_home_and_its_token_is_nowhere(arc_server: ArcServer, home: FakeServer) -> None:
    element = Arc(arc_server.options)
    (answer,) = element.submit(orders(home, "bed-pilot-4"))
    assert answer.error == ""
    wait_for(lambda: home.matches, "the pilot calls home")
    assert {key: home.matches[0][key] for key in ("cores", "memory")} == {"cores": 2, "memory": 1000}
    job = answer.reference.rpartition("/")[2]
    files = [path for path in arc_server.place.rglob("*") if job in str(path) and path.is_file()]
    assert any(path.name == "agent.log" for path in files)
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []
    told = [process.cmdline() for process in agents(home)]
    assert told
    assert TOKEN not in str(told)
    wait_for(lambda: element.capacity().running == 1, "ARC counts it as running")
    element.cancel([answer.reference])
    wait_for(lambda: element.poll([answer.reference])[answer.reference].state == "ended", "it ends")


def test_p9_a_persons_pilot_is_submitted_polled_and_cancelled_with_the_persons_certificate(
    arc_server: ArcServer, home: FakeServer, tmp_path: Path
) -> None:
    """ARC shows each identity its own jobs alone. A renewed certificate is seen at the next call."""
    files = {name: tmp_path / name for name in arc_server.credential("bob")}
    own = OwnerCredential(vo="ligo", person="bob", options={name: str(at) for name, at in files.items()})
    element = ComputingElement(kind="arc", options=arc_server.options, credentials=(own,))
    common, bob = load(element.at("")), load(element.at("", own.name))

    def renew(person: str) -> None:
        for name, file in arc_server.credential(person).items():
            files[name].write_bytes(Path(file).read_bytes())

    renew("bob")
    (answer,) = bob.submit(orders(home, "bed-pilot-bob"))
    assert answer.error == ""
    assert bob.poll([answer.reference])[answer.reference].state in ("waiting", "running")
    assert common.poll([answer.reference])[answer.reference].missing
    common.cancel([answer.reference])
    wait_for(lambda: home.matches, "the pilot calls home: nobody else has ended it")
    renew("alice")
    assert bob.poll([answer.reference])[answer.reference].missing
    renew("bob")
    bob.cancel([answer.reference])
    wait_for(lambda: bob.poll([answer.reference])[answer.reference].state == "ended", "it ends")


def test_one_whose_answer_was_lost_is_recognised_by_its_name(
    arc_server: ArcServer, home: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service does what was asked, and its answer never comes."""
    create, lost = ArcJobs.create, []

    def answered_to_nobody(self: ArcJobs, described: bytes, count: int) -> list[ArcJob]:
        lost.extend(create(self, described, count))
        raise AnswerLost("no answer")

    monkeypatch.setattr(ArcJobs, "create", answered_to_nobody)
    asked = orders(home, "bed-pilot-5", "bed-pilot-6")
    answers = Arc(arc_server.options).submit(asked)
    assert [answer.reference.rpartition("/")[2] for answer in answers] == [job.id for job in lost]
    again = Arc(arc_server.options)
    assert [answer.reference for answer in again.submit(asked)] == [answer.reference for answer in answers]
    assert len(lost) == 2
    references = [answer.reference for answer in answers]
    again.cancel(references)
    wait_for(lambda: {one.state for one in again.poll(references).values()} == {"ended"}, "both end")


def test_a_pilot_that_fails_says_why(arc_server: ArcServer, home: FakeServer) -> None:
    home.status = 410
    element = Arc(arc_server.options)
    (answer,) = element.submit(orders(home, "bed-pilot-7"))
    wait_for(lambda: element.poll([answer.reference])[answer.reference].state == "ended", "it ends")
    status = element.poll([answer.reference])[answer.reference]
    assert status.exit_code == 1
    assert "exit code" in status.reason


def test_what_is_refused_is_said(arc_server: ArcServer, home: FakeServer, tmp_path: Path) -> None:
    wrong: dict[str, Any] = {**arc_server.options, "queue": "no-such-queue"}
    (answer,) = Arc(wrong).submit(orders(home, "bed-pilot-8"))
    assert "no-such-queue" in answer.error
    nobody = {key: value for key, value in wrong.items() if key not in ("certificate_file", "key_file")}
    with pytest.raises(OSError, match=r"ARC refuses GET jobs: 403 .*knows no user"):
        Arc(nobody).submit(orders(home, "bed-pilot-8"))
    stranger = {key: value for key, value in wrong.items() if key != "ca_path"}
    with pytest.raises(OSError, match=r"cannot be reached: .*certificate verify failed"):
        Arc(stranger).submit(orders(home, "bed-pilot-8"))


def test_p8_arc_tells_what_it_would_run(arc_server: ArcServer) -> None:
    size = PilotSize(cores=1, memory=0, walltime=3600)
    slots = Arc(arc_server.options).capacity().slots
    assert slots
    assert Arc(arc_server.options).resources(size) == slots
    assert Arc(arc_server.options).resources(replace(size, cores=10_000)) == 0
    assert Arc({**arc_server.options, "queue": "no-such-queue"}).resources(size) == 0


def test_a_service_that_is_killed_is_seen_again(arc_server: ArcServer, home: FakeServer) -> None:
    element = Arc(arc_server.options)
    (answer,) = element.submit(orders(home, "bed-pilot-9"))
    wait_for(lambda: home.matches, "the pilot calls home")
    wait_for(lambda: element.poll([answer.reference])[answer.reference].state == "running", "ARC sees it run")
    arc_server.kill()
    # The end of a kept connection may reach us first.
    away = "cannot be reached|no answer"
    with pytest.raises(OSError, match=away):
        element.poll([answer.reference])
    with pytest.raises(OSError, match=away):
        element.submit(orders(home, "bed-pilot-10"))
    assert agents(home), "the pilot does not depend on it"
    arc_server.start()
    wait_for(lambda: element.poll([answer.reference])[answer.reference].state != "waiting", "ARC knows it")
    assert element.poll([answer.reference])[answer.reference].state == "running"
    element.cancel([answer.reference])
    wait_for(lambda: element.poll([answer.reference])[answer.reference].state == "ended", "it ends")
