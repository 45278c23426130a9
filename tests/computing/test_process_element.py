"""The computing element of kind ``process``: real agents, started, seen, and ended."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from unittest import mock

import psutil
import pytest

from pilotage.adapters.computing import process as process_element
from pilotage.adapters.computing.loader import load
from pilotage.adapters.computing.process import Process, ProcessReference
from pilotage.model.records.federation import ComputingElement
from pilotage.ports.adapters import AdapterError
from pilotage.ports.computing import ComputingElementPort, PilotOrder, PilotStatus
from tests.agent.fake_pilot_server import TOKEN, FakeServer
from tests.waiting import has_ended, wait_for

HANG = "import os, time; open({mark!r}, 'w').write(str(os.getpid())); time.sleep(600)"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(idle=20).serving() as fake:
        yield fake


@pytest.fixture
def element(tmp_path: Path) -> Process:
    return Process({"directory": str(tmp_path / "pilots"), "environment": {"PILOTAGE_TEST": 1}})


@pytest.fixture
def pilot(server: FakeServer, element: Process) -> Iterator[str]:
    reference = submitted(element, order(server))
    yield reference
    element.cancel([reference])


def order(server: FakeServer, pilot: int = 12) -> PilotOrder:
    return PilotOrder(
        pilot=pilot,
        name=f"here-pilot-{pilot}",
        token=TOKEN,
        server_url=server.url,
        cores=2,
        memory=500,
        slots=2,
        walltime=900,
    )


def submitted(element: Process, order: PilotOrder) -> str:
    """The reference to a pilot that was submitted alone."""
    (answer,) = element.submit([order])
    assert not answer.error
    return answer.reference


def states(element: Process, *references: str) -> list[str]:
    found = element.poll(references)
    return [found[reference].state for reference in references]


def process(reference: str) -> psutil.Process:
    return psutil.Process(ProcessReference.parse(reference).pid)


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
    assert agent.cwd() == str(tmp_path / "pilots/here-pilot-12")
    assert Path(f"/proc/{agent.pid}/fd/0").readlink() == Path(os.devnull)
    assert Path(f"/proc/{agent.pid}/fd/2").readlink() == tmp_path / "pilots/here-pilot-12/agent.log"
    assert (tmp_path / "pilots/here-pilot-12").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_the_token_is_never_in_the_environment_or_arguments_of_a_starting_agent(
    server: FakeServer, element: Process
) -> None:
    """Whoever runs as the same user may read both until the agent has closed them."""
    reference = submitted(element, order(server))
    folder = Path("/proc", str(process(reference).pid))
    looks = 0
    while not server.matches:
        seen = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        assert TOKEN.encode() not in seen
        looks += bool(seen)
    element.cancel([reference])
    assert looks


def test_the_servers_secrets_are_not_passed_on(
    server: FakeServer, element: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTAGE_DATABASE", "postgresql://user:secret@host/base")
    reference = submitted(element, order(server))
    wait_for(lambda: server.matches, "the pilot asks for work")
    names = process(reference).environ().keys()
    element.cancel([reference])
    assert "PILOTAGE_DATABASE" not in names
    assert "PILOTAGE_TEST" in names


def test_poll_tells_running_from_ended(server: FakeServer, element: Process, pilot: str) -> None:
    assert states(element, pilot) == ["running"]
    server.status = 410
    wait_for(lambda: states(element, pilot) == ["ended"], "the pilot ends")
    wait_for(lambda: element.poll([pilot])[pilot].exit_code is not None, "it is reaped")
    assert element.poll([pilot])[pilot] == PilotStatus(state="ended", reason="exit status 1", exit_code=1)
    assert Process({}).poll([pilot])[pilot] == PilotStatus(state="ended"), "another server's child"


def test_an_ended_pilot_leaves_no_zombie(server: FakeServer, element: Process, pilot: str) -> None:
    pid = ProcessReference.parse(pilot).pid
    server.status = 410
    wait_for(lambda: not psutil.pid_exists(pid), "the pilot is gone from the table of processes")


def test_a_reused_pid_is_not_taken_for_the_pilot(element: Process, pilot: str) -> None:
    other = ProcessReference.parse(pilot)
    before, former = str(other._replace(start=other.start - 1)), str(other._replace(boot="00000000"))
    assert states(element, before, former) == ["ended", "ended"]
    element.cancel([before])
    assert states(element, pilot) == ["running"]


def test_what_cannot_be_known_here_is_unknown(element: Process, pilot: str) -> None:
    elsewhere = str(ProcessReference.parse(pilot)._replace(host="elsewhere"))
    assert states(element, elsewhere, "nonsense", "") == ["unknown"] * 3


def test_a_pilot_that_proc_hides_is_unknown_and_keeps_its_directory(
    element: Process, pilot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "pilots/here-pilot-12"
    with monkeypatch.context() as patch:
        patch.setattr(process_element, "process_start", lambda _: None)
        patch.setattr(process_element, "is_hidden", lambda _: True)
        assert states(element, pilot) == ["unknown"]
        assert not process_element._has_ended(place)
        assert process_element._running(place) == pilot
    assert states(element, pilot) == ["running"]


def test_cancel_kills_the_whole_tree(server: FakeServer, element: Process, tmp_path: Path) -> None:
    mark = tmp_path / "shared/mark"
    mark.parent.mkdir()
    work = {
        "task": 1,
        "command": ["setsid", "python3", "-c", HANG.format(mark=str(mark))],
        "storage_url": f"file://{tmp_path}",
        "writable": [str(mark.parent)],
        "jobs": [{"job": 1, "attempt": 1, "scratch": ".scratch/here/1.1", "inputs": []}],
    }
    server.works = [[work]]
    reference = submitted(element, order(server))
    wait_for(lambda: mark.exists() and mark.read_text(), "the payload runs")
    agent = process(reference)

    def descendants() -> list[psutil.Process]:
        found = agent.children(recursive=True)
        return found if len(found) >= 2 else []

    # A look at all processes of a busy machine may miss some.
    tree = [agent, *wait_for(descendants, "what keeps the payload, and the payload")]
    element.cancel([reference])
    assert all(map(has_ended, tree))
    assert states(element, reference) == ["ended"]
    assert server.ended == ["pilot stopped by signal 15 (SIGTERM)"]
    element.cancel([reference])


def test_work_directories_go_though_agent_and_supervisor_are_killed(
    server: FakeServer, element: Process, tmp_path: Path
) -> None:
    """The agent and its supervisors remove them otherwise. Here nobody of these lives on."""
    mark = tmp_path / "shared/mark"
    mark.parent.mkdir()
    work = {
        "task": 1,
        "command": ["python3", "-c", HANG.format(mark=str(mark))],
        "storage_url": f"file://{tmp_path}",
        "writable": [str(mark.parent)],
        "jobs": [{"job": 1, "attempt": 1, "scratch": ".scratch/here/1.1", "inputs": []}],
    }
    server.works = [[work]]
    agent = process(submitted(element, order(server)))
    wait_for(lambda: mark.exists() and mark.read_text(), "the payload runs")
    place = tmp_path / "pilots/here-pilot-12"
    assert (place / "1.1").is_dir()
    tree = [*agent.children(recursive=True), agent]
    for member in tree:
        member.suspend()
    for member in tree:
        # A supervisor's end may already have ended what it holds.
        with suppress(psutil.NoSuchProcess):
            member.kill()
    wait_for(lambda: not (place / "1.1").exists(), "its work directory is removed")
    assert (place / "agent.log").is_file(), "its log stays"


def test_what_was_left_behind_before_a_restart_goes_with_the_next_pilot(
    server: FakeServer, element: Process, pilot: str, tmp_path: Path
) -> None:
    """Nobody waited for these pilots: their server had ended, too."""
    known = ProcessReference.parse(pilot)
    left = {
        "dead": (str(known._replace(start=known.start - 1)), False),
        "crashed": (str(known._replace(boot="00000000")), False),
        "lives": (pilot, True),
        "elsewhere": (str(known._replace(host="elsewhere", start=1)), True),
        "strange": ("", True),
    }
    folder = tmp_path / "more"
    for name, (reference, _) in left.items():
        for part in ("7.1/deep", "notes"):
            (folder / name / part).mkdir(parents=True)
        (folder / name / "7.1/deep/file").write_text("x")
        (folder / name / "7.1/deep").chmod(0)
        (folder / name / "process").write_text(f"{reference}\n")
    other = Process({"directory": str(folder)})
    reference = submitted(other, order(server, 13))
    try:
        for name, (_, stays) in left.items():
            if not stays:
                wait_for(lambda name=name: not (folder / name / "7.1").exists(), f"{name} is cleaned")  # type: ignore[misc]
        assert [name for name in left if (folder / name / "7.1").exists()] == [
            "lives",
            "elsewhere",
            "strange",
        ]
        assert all((folder / name / "notes").is_dir() for name in left)
    finally:
        other.cancel([reference])


def test_a_cancelled_pilot_that_was_killed_before_leaves_nothing(pilot: str, tmp_path: Path) -> None:
    """Another server started it, so this one does not wait for it."""
    known = ProcessReference.parse(pilot)
    dead = str(known._replace(start=known.start - 1))
    folder = tmp_path / "more"
    for name, reference in {"dead": dead, "other": str(known._replace(start=1)), "lives": pilot}.items():
        (folder / name / "7.1").mkdir(parents=True)
        (folder / name / "process").write_text(f"{reference}\n")
    Process({"directory": str(folder)}).cancel([dead])
    assert sorted(path.parent.name for path in folder.glob("*/7.1")) == ["lives", "other"]


@pytest.mark.slow
def test_a_pilot_outlives_the_server_that_started_it(
    server: FakeServer, element: Process, tmp_path: Path
) -> None:
    starter = (
        "import sys; from pilotage.ports.computing import PilotOrder\n"
        "from pilotage.adapters.computing.process import Process\n"
        f"order = PilotOrder(pilot=3, name='x', token={TOKEN!r}, server_url={server.url!r}, walltime=600)\n"
        f"print(Process({{'directory': {str(tmp_path)!r}}}).submit([order])[0].reference)"
    )
    reference = subprocess.run(
        [sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    calls = len(server.calls)
    wait_for(lambda: len(server.calls) > calls + 1, "the pilot calls on")
    assert states(element, reference) == ["running"]
    element.cancel([reference])
    assert states(element, reference) == ["ended"]


def test_an_element_is_found_by_its_kind(tmp_path: Path) -> None:
    element: ComputingElementPort = load(ComputingElement(options={"directory": str(tmp_path)}))
    assert isinstance(element, Process)
    with pytest.raises(AdapterError, match=r"'nowhere': installed in pilotage.computing are .*process"):
        load(ComputingElement(kind="nowhere"))
    with pytest.raises(ValueError, match=r"unknown options \['directroy'\]"):
        load(ComputingElement(options={"directroy": "/tmp"}))


def test_an_order_does_not_show_its_token() -> None:
    assert TOKEN not in repr(PilotOrder(pilot=1, name="a", token=TOKEN, server_url="http://x"))


def test_many_pilots_are_cancelled_in_one_grace(
    server: FakeServer, element: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each agent is stopped so that it cannot react to a signal: only killing ends it."""
    monkeypatch.setattr(process_element, "GRACE", 1.0)
    references = [answer.reference for answer in element.submit([order(server, n) for n in range(1, 5)])]
    for reference in references:
        process(reference).suspend()
    with mock.patch.object(psutil, "wait_procs", wraps=psutil.wait_procs) as waits:
        element.cancel(references)
    assert states(element, *references) == ["ended"] * 4
    assert waits.call_count == 2, "the grace, and the end of those that were killed"
    wait_for(
        lambda: not any(psutil.pid_exists(ProcessReference.parse(r).pid) for r in references),
        "they are reaped",
    )


def test_one_that_cannot_be_started_does_not_keep_the_others_out(
    server: FakeServer, element: Process, tmp_path: Path
) -> None:
    (tmp_path / "pilots").mkdir()
    (tmp_path / "pilots/here-pilot-1").write_text("in the way")
    first, second = element.submit([order(server, 1), order(server, 2)])
    element.cancel([second.reference])
    assert (first.reference, second.error) == ("", "")
    assert "here-pilot-1 cannot be started" in first.error
