"""Attacks by payloads that worked when nothing contained them: each in every way that this machine has."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pilotage.agent import proof
from pilotage.agent.machine import now
from pilotage.agent.payload.payload import Ended, Order, Payload
from pilotage.agent.payload.view import SitePaths, View, view
from pilotage.agent.proof import Containment, prove
from pilotage.model.rules.failed_attempts import COMPLETE_CONTAINMENT
from tests.waiting import wait_for

from .processes import of_environment

ATTACK = """
    import ctypes, json, os, signal, socket, subprocess, sys
    token, other, agent, abstract, port, lent, shared = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    found = {}
    def attempt(name, act):
        try:
            act()
            found[name] = True
        except Exception:
            found[name] = False
    def called(result):
        if result:
            raise OSError
    def connect(family, address):
        with socket.socket(family) as one:
            one.settimeout(2)
            one.connect(address)
    attempt("reads the server's token", lambda: open(token).read())
    attempt("writes beside the token", lambda: open(token + ".mine", "w"))
    attempt("reads another job's file", lambda: open(other).read())
    attempt("reads the agent's environment", lambda: open(f"/proc/{agent}/environ").read().index("SECRET"))
    attempt("opens the agent's files", lambda: os.readlink(f"/proc/{agent}/fd/1"))
    attempt("signals the agent", lambda: os.kill(int(agent), signal.SIGUSR1))
    attempt("traces the agent", lambda: called(libc.ptrace(16, int(agent), 0, 0)))
    attempt("connects to an abstract socket", lambda: connect(socket.AF_UNIX, "\\0" + abstract))
    attempt("makes the system writable", lambda: called(libc.mount(None, b"/usr", None, 4096 | 32, None)))
    attempt("writes to the system", lambda: open("/usr/of-" + abstract, "w"))
    attempt("writes to a path to read", lambda: open(lent + "/new", "w"))
    attempt("stops its supervisor", lambda: os.kill(os.getppid(), 0) if os.getppid() > 1 else 1 / 0)
    attempt("uses the network", lambda: connect(socket.AF_INET, ("127.0.0.1", int(port))))
    attempt("starts programs", lambda: subprocess.run(["sh", "-c", "ls /usr > listed"], check=True))
    attempt("reads a path to read", lambda: open(lent + "/data").read())
    attempt("writes to a path to write", lambda: open(shared + "/out", "w"))
    attempt("writes its directory", lambda: open("out", "w"))
    attempt("makes temporary files", lambda: open(os.environ["TMPDIR"] + "/x", "w"))
    json.dump(found, open("found.json", "w"))
"""
ALLOWED = {
    "uses the network",
    "starts programs",
    "reads a path to read",
    "writes to a path to write",
    "writes its directory",
    "makes temporary files",
}


@pytest.fixture(params=proof.MECHANISMS)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A way that works on this machine."""
    (tmp_path / "tried").mkdir()
    if request.param == "bubblewrap" and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    try:
        asyncio.run(proof.attack(request.param, shutil.which("bwrap") or "", tmp_path / "tried", ()))
    except OSError as error:
        pytest.skip(f"{request.param}: {error}")
    return str(request.param)


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[bytes]]:
    """A stand-in for the agent, which minds no signal and has a secret in its environment."""
    command = (
        "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN); print(flush=True); signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", command], env={"SECRET": "1"}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


def seen(way: str, directory: Path, site: SitePaths) -> View:
    return view(way, shutil.which("bwrap") or "", directory, site)


def run(directory: Path, view: View, *command: str, **more: Any) -> Ended:
    async def supervised() -> Ended:
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        environment = {"PATH": path, "HOME": str(directory), "TMPDIR": str(directory / "tmp")}
        order = Order(command, environment, directory, view=view, **more)
        return await Payload(order, now() + 600).ended()

    (directory / "tmp").mkdir(parents=True, exist_ok=True)
    return asyncio.run(supervised())


NAME = f"pilotage-test-{os.getpid()}"
"""Of a socket and a file that no other run of these tests has."""

OF_A_PAYLOAD = Path("/usr") / f"of-{NAME}"
"""What a payload leaves in the system where nothing contains it."""


def attack(place: Path, way: str, agent: int) -> dict[str, bool]:
    """What a payload of that way reaches."""
    job, home = place / "pilots/1/job", place / "home"
    for folder in (home, place / "pilots/1/other", place / "lent", place / "shared"):
        folder.mkdir(parents=True)
    (home / "token").write_text("secret")
    (place / "pilots/1/other/file").write_text("secret")
    (place / "lent/data").write_text("data")
    name = NAME
    with socket.socket(socket.AF_UNIX) as abstract, socket.create_server(("127.0.0.1", 0)) as server:
        abstract.bind(f"\0{name}")
        abstract.listen()
        site = SitePaths((str(place / "lent"),), (str(place / "shared"),), (str(home), str(place / "pilots")))
        ended = run(
            job,
            seen(way, job, site),
            *("python3", "-c", textwrap.dedent(ATTACK)),
            *(str(home / "token"), str(place / "pilots/1/other/file"), str(agent), name),
            *(str(server.getsockname()[1]), str(place / "lent"), str(place / "shared")),
        )
    assert ended.error == ""
    found: dict[str, bool] = json.loads((job / "found.json").read_text())
    return found


def test_a_contained_payload_reaches_its_own_things_and_nothing_else(
    tmp_path: Path, way: str, agent: subprocess.Popen[bytes]
) -> None:
    found = attack(tmp_path, way, agent.pid)
    assert {name for name, could in found.items() if could} == ALLOWED
    assert not OF_A_PAYLOAD.exists()


def test_without_containment_a_payload_reaches_what_its_user_does(
    tmp_path: Path, agent: subprocess.Popen[bytes]
) -> None:
    found = attack(tmp_path, "none", agent.pid)
    assert {"reads the server's token", "reads another job's file", "signals the agent"} <= {
        name for name, could in found.items() if could
    }
    OF_A_PAYLOAD.unlink(missing_ok=True)


def test_hidden_folders_stay_hidden_below_paths_that_payloads_see(tmp_path: Path, way: str) -> None:
    (tmp_path / "lent/software").mkdir(parents=True)
    (tmp_path / "lent/home").mkdir()
    (tmp_path / "lent/home/token").write_text("secret")
    (tmp_path / "lent/software/way-out").symlink_to("../home")
    (tmp_path / "lent/way-in").symlink_to("home")
    site = SitePaths((str(tmp_path / "lent"),), (), (str(tmp_path / "lent/home"),))
    job = tmp_path / "job"
    paths = " ".join(f"{tmp_path}/lent/{name}/token" for name in ("home", "way-in", "software/way-out"))
    ended = run(job, seen(way, job, site), "sh", "-c", f"ls {tmp_path}/lent/software; cat {paths}")
    assert ended.exit_code == 1
    assert (job / "stdout").read_text() == "way-out\n"


def test_a_payload_sees_lent_paths_below_the_tmp_that_it_has_for_itself(tmp_path: Path, way: str) -> None:
    (tmp_path / "lent").mkdir()
    (tmp_path / "lent/data").write_text("data")
    (tmp_path / "other").write_text("secret")
    site = SitePaths((f"{tmp_path}/lent",))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as elsewhere:
        job = Path(elsewhere) / "job"
        ended = run(job, seen(way, job, site), "sh", "-c", f"cat {tmp_path}/lent/data {tmp_path}/other")
        assert ended.exit_code == 1
        assert (job / "stdout").read_text() == "data"


def test_a_view_that_cannot_be_made_fails_the_job_with_its_reason(tmp_path: Path, way: str) -> None:
    if way == "landlock":
        pytest.skip("Landlock has no use for paths that are not there")
    job = tmp_path / "job"
    (tmp_path / "going").mkdir()
    laid_out = seen(way, job, SitePaths((str(tmp_path / "going"),)))
    (tmp_path / "going").rmdir()
    error = run(job, laid_out, "true").error
    assert error.startswith(f"payload cannot be contained by {way}: ")


def test_a_machine_that_holds_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "MECHANISMS", ())
    assert asyncio.run(prove(tmp_path, ())) == Containment("none", "none", "")


def test_what_does_not_hold_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof is an attack, not a list of versions: a way that lets it through is passed over."""

    def open_door(way: str, bubblewrap: str, directory: Path, site: SitePaths) -> View:
        laid_out = view(way, bubblewrap, directory, site)
        return View() if way != "landlock" else laid_out

    monkeypatch.setattr(proof, "view", open_door)
    found = asyncio.run(prove(tmp_path, ()))
    assert found.mechanism in ("landlock", "none")
    assert list(tmp_path.iterdir()) == []


def test_an_old_landlock_is_called_by_what_it_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def signals(*_: Any) -> set[str]:
        return {"signals"}

    monkeypatch.setattr(proof, "attack", signals)
    assert asyncio.run(prove(tmp_path, ())).name == "landlock-files"


def test_the_server_counts_those_ways_as_complete_that_the_agent_proves() -> None:
    assert set(proof.MECHANISMS) == COMPLETE_CONTAINMENT


FORKING = """
    import os, signal, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        open("ready", "w")
        time.sleep(600)
    while not os.path.exists("ready"):
        time.sleep(0.01)
    for number in range(2, 60000):
        if number not in (os.getpid(),):
            try:
                os.kill(number, 0)
            except ProcessLookupError:
                continue
            except PermissionError:
                continue
    open("reached", "w")
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_nothing_of_a_payload_outlives_agent_and_supervisor(tmp_path: Path, way: str, sent: int) -> None:
    """Both are killed at once, so that neither cleans up after the other: the kernel ends the namespace.

    Or the supervisor is stopped, and the lease ends while nobody looks.
    """
    if way == "landlock":
        pytest.skip("Landlock knows files and signals, and ends nothing")
    job = tmp_path / "job"
    (job / "tmp").mkdir(parents=True)
    text, lease = textwrap.dedent(FORKING), 600 if sent == signal.SIGKILL else 9
    program = (
        "import asyncio, sys, time; from pathlib import Path\n"
        "from pilotage.agent.payload.payload import Order, Payload\n"
        "from pilotage.agent.machine import now\n"
        "from pilotage.agent.payload.view import SitePaths, view\n"
        f"seen = view({way!r}, {shutil.which('bwrap') or ''!r}, Path({str(job)!r}), SitePaths())\n"
        f"environment = {{'PATH': {os.environ['PATH']!r}, 'HOME': {str(job)!r}}}\n"
        f"order = Order(('python3', '-c', {text!r}), environment, Path({str(job)!r}), view=seen)\n"
        f"payload = Payload(order, now() + {lease}); print(payload.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as agent:
        assert agent.stdout
        supervisor = psutil.Process(int(agent.stdout.readline()))
        wait_for((job / "reached").exists, "the payload has started its daemon")
        assert len(of_environment(HOME=str(job))) >= 2
        for process in (agent, supervisor):
            process.send_signal(sent)
        wait_for(lambda: not of_environment(HOME=str(job)), "nothing of the payload is left")
        agent.kill()


@pytest.mark.slow
@pytest.mark.parametrize("first", ["payload", "supervisor"])
def test_a_frozen_machine_that_thaws_after_its_lease_runs_nothing_of_a_payload(
    tmp_path: Path, way: str, first: str
) -> None:
    """Agent, supervisor and payload are stopped together and go on when the next attempt may run."""
    if way == "landlock":
        pytest.skip("only a namespace is ended by the kernel with all its processes")
    job = tmp_path / "job"
    text = """
        import os, time
        if os.fork() == 0:
            os.setsid()
        while True:
            with open("ticks", "a") as ticks:
                ticks.write(".")
            time.sleep(0.01)
    """

    async def frozen() -> tuple[Ended, int]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(job)}
        order = Order(
            ("python3", "-c", textwrap.dedent(text)), environment, job, view=seen(way, job, SitePaths())
        )
        lease_end = now() + 5
        payload = Payload(order, lease_end)
        await asyncio.to_thread(wait_for, (job / "ticks").exists, "the payload runs")
        supervisor = psutil.Process(payload.pid)
        tree = [supervisor, *supervisor.children(recursive=True)]
        for process in tree:
            process.suspend()
        ticks = (job / "ticks").stat().st_size
        await asyncio.sleep(lease_end + 1.5 - now())
        for process in reversed(tree) if first == "payload" else tree:
            if process.is_running():
                process.resume()
        return await payload.ended(), (job / "ticks").stat().st_size - ticks

    (job / "tmp").mkdir(parents=True)
    ended, late = asyncio.run(frozen())
    assert ended.error == "supervisor killed; its payload was killed with it"
    assert late == 0
    wait_for(lambda: not of_environment(HOME=str(job)), "nothing of the payload is left")
