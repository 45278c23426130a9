"""The computing element of kind ``process``: real agents, started, seen, and ended."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pilotage.computing.process import Process, Reference
from pilotage.model.federation import ComputingElement
from pilotage.ports.computing import (
    ComputingElementPort,
    PilotOrder,
    UnknownComputingElementError,
    load,
)
from tests.agent.fake_pilot_server import TOKEN, FakeServer, wait_for

HANG = "import os, time; open({mark!r}, 'w').write(str(os.getpid())); time.sleep(60)"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(idle=20).serving() as fake:
        yield fake


@pytest.fixture
def element(tmp_path: Path) -> Process:
    return Process({"directory": str(tmp_path / "pilots"), "environment": {"PILOTAGE_TEST": 1}})


@pytest.fixture
def pilot(server: FakeServer, element: Process) -> Iterator[str]:
    reference = element.submit(order(server))
    yield reference
    element.cancel(reference)


def order(server: FakeServer) -> PilotOrder:
    return PilotOrder(
        pilot=12, token=TOKEN, server_url=server.url, cores=2, memory=500, slots=2, walltime=900
    )


def process(reference: str) -> psutil.Process:
    return psutil.Process(Reference.parse(reference).pid)


def test_a_pilot_calls_home_with_what_it_was_ordered_to_offer(server: FakeServer, pilot: str) -> None:
    wait_for(lambda: server.matches, "the pilot asks for work")
    assert {name: server.matches[0][name] for name in ("cores", "memory", "max_jobs")} == {
        "cores": 2,
        "memory": 500,
        "max_jobs": 2,
    }
    assert 0 < server.matches[0]["walltime"] <= 900


def test_a_pilot_is_detached_and_the_token_is_not_on_its_command_line(
    server: FakeServer, pilot: str, tmp_path: Path
) -> None:
    agent = process(pilot)
    assert os.getsid(agent.pid) == agent.pid
    assert TOKEN not in " ".join(agent.cmdline())
    wait_for(lambda: server.matches, "the pilot asks for work")
    assert agent.cwd() == str(tmp_path / "pilots/pilot-12")
    assert Path(f"/proc/{agent.pid}/fd/0").readlink() == Path(os.devnull)
    assert Path(f"/proc/{agent.pid}/fd/2").readlink() == tmp_path / "pilots/pilot-12/agent.log"
    assert (tmp_path / "pilots/pilot-12").stat().st_mode & 0o077 == 0


def test_the_token_is_never_in_the_environment_or_arguments_of_a_starting_agent(
    server: FakeServer, element: Process
) -> None:
    """Whoever runs as the same user may read both until the agent has closed them."""
    reference = element.submit(order(server))
    folder = Path("/proc", str(process(reference).pid))
    looks = 0
    while not server.matches:
        seen = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        assert TOKEN.encode() not in seen
        looks += bool(seen)
    element.cancel(reference)
    assert looks > 10


def test_the_servers_secrets_are_not_passed_on(
    server: FakeServer, element: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTAGE_DATABASE", "postgresql://user:secret@host/base")
    reference = element.submit(order(server))
    wait_for(lambda: server.matches, "the pilot asks for work")
    names = process(reference).environ().keys()
    element.cancel(reference)
    assert "PILOTAGE_DATABASE" not in names
    assert "PILOTAGE_TEST" in names


def test_poll_tells_running_from_ended(server: FakeServer, element: Process, pilot: str) -> None:
    assert element.poll([pilot]) == {pilot: "running"}
    server.status = 410
    wait_for(lambda: element.poll([pilot]) == {pilot: "ended"}, "the pilot ends")


def test_an_ended_pilot_leaves_no_zombie(server: FakeServer, element: Process, pilot: str) -> None:
    pid = Reference.parse(pilot).pid
    server.status = 410
    wait_for(lambda: not psutil.pid_exists(pid), "the pilot is gone from the table of processes")


def test_a_reused_pid_is_not_taken_for_the_pilot(element: Process, pilot: str) -> None:
    other = Reference.parse(pilot)
    assert element.poll([str(other._replace(start=other.start - 1))]).popitem()[1] == "ended"
    assert element.poll([str(other._replace(boot="00000000"))]).popitem()[1] == "ended"
    element.cancel(str(other._replace(start=other.start - 1)))
    assert element.poll([pilot]) == {pilot: "running"}


def test_what_cannot_be_known_here_is_unknown(element: Process, pilot: str) -> None:
    elsewhere = str(Reference.parse(pilot)._replace(host="elsewhere"))
    assert element.poll([elsewhere, "nonsense", ""]) == {
        elsewhere: "unknown",
        "nonsense": "unknown",
        "": "unknown",
    }


def test_cancel_kills_the_whole_tree(server: FakeServer, element: Process, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    work = {
        "task": 1,
        "command": ["setsid", "python3", "-c", HANG.format(mark=str(mark))],
        "storage_url": f"file://{tmp_path}",
        "jobs": [{"job": 1, "attempt": 1, "inputs": []}],
    }
    server.works = [[work]]
    reference = element.submit(order(server))
    wait_for(lambda: mark.exists() and mark.read_text(), "the payload runs")
    tree = [process(reference), *process(reference).children(recursive=True)]
    element.cancel(reference)
    assert [member for member in tree if member.is_running()] == []
    assert len(tree) == 3
    assert element.poll([reference]) == {reference: "ended"}
    assert server.ended == ["pilot stopped by signal 15 (SIGTERM)"]
    element.cancel(reference)


def test_a_pilot_outlives_the_server_that_started_it(
    server: FakeServer, element: Process, tmp_path: Path
) -> None:
    starter = (
        "import sys; from pilotage.ports.computing import PilotOrder\n"
        "from pilotage.computing.process import Process\n"
        f"order = PilotOrder(pilot=3, token={TOKEN!r}, server_url={server.url!r}, walltime=600)\n"
        f"print(Process({{'directory': {str(tmp_path)!r}}}).submit(order))"
    )
    reference = subprocess.run(
        [sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    calls = len(server.calls)
    wait_for(lambda: len(server.calls) > calls + 1, "the pilot calls on")
    assert element.poll([reference]) == {reference: "running"}
    element.cancel(reference)
    assert element.poll([reference]) == {reference: "ended"}


def test_an_element_is_found_by_its_kind(tmp_path: Path) -> None:
    element: ComputingElementPort = load(ComputingElement(options={"directory": str(tmp_path)}))
    assert isinstance(element, Process)
    with pytest.raises(UnknownComputingElementError, match=r"'slurm': installed are .*process"):
        load(ComputingElement(kind="slurm"))
    with pytest.raises(ValueError, match=r"unknown options \['directroy'\]"):
        load(ComputingElement(options={"directroy": "/tmp"}))


def test_an_order_does_not_show_its_token() -> None:
    assert TOKEN not in repr(PilotOrder(pilot=1, token=TOKEN, server_url="http://x"))
