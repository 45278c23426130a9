"""One payload under its payload: limits, leftovers, the lease, and the death of whoever watches."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from pilotage.agent.machine import now
from pilotage.agent.payload import workdir
from pilotage.agent.payload.containment import WITH_INIT
from pilotage.agent.payload.payload import Ended, Order, Payload
from pilotage.agent.payload.supervisor import LONGEST_STREAM, STREAM_HEAD
from pilotage.agent.payload.view import SitePaths, view
from pilotage.agent.proof import attack
from tests.waiting import has_ended, wait_for

from .processes import of_environment

pytestmark = pytest.mark.slow

SLEEPER = (
    "import os, time; open('pid', 'w').write(str(os.getpid())); "
    "os.rename('pid', 'pid.ready'); time.sleep(600)"
)
DAEMON = """
    import os, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            with open("pid", "w") as file:
                file.write(str(os.getpid()))
            os.rename("pid", "pid.ready")
            time.sleep(600)
        os._exit(0)
    os.wait()
    while not os.path.exists("pid.ready"):
        time.sleep(0.01)
"""


WAY = ["none"]


@pytest.fixture(scope="session")
def holding(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The ways that work on this machine and put an init between supervisor and payload."""
    found = set()
    for one in WITH_INIT:
        with suppress(OSError):
            place = tmp_path_factory.mktemp(one)
            asyncio.run(attack(one, shutil.which("bwrap") or "", place, ()))
            found.add(one)
    return found


@pytest.fixture(params=["none", *WITH_INIT], autouse=True)
def way(request: pytest.FixtureRequest, holding: set[str]) -> str:
    """All that holds of a payload holds however it is contained; Landlock changes nothing of its course."""
    if request.param not in {"none", *holding}:
        pytest.skip(f"this machine has no {request.param}")
    WAY[0] = request.param
    return WAY[0]


def order(directory: Path, *command: str, **limits: Any) -> Order:
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(directory)}
    environment |= limits.pop("environment", {})
    (directory / "tmp").mkdir(exist_ok=True)
    seen = view(WAY[0], shutil.which("bwrap") or "", directory, SitePaths())
    return Order(command=command, environment=environment, directory=directory, view=seen, **limits)


def python(text: str) -> tuple[str, ...]:
    return "python3", "-c", textwrap.dedent(text)


def run(directory: Path, *command: str, lease: float = 600, **limits: Any) -> Ended:
    async def supervised() -> Ended:
        return await Payload(order(directory, *command, **limits), now() + lease).ended()

    return asyncio.run(supervised())


def run_and(
    directory: Path, act: Callable[[Payload], object], *command: str, lease: float = 600, **limits: Any
) -> tuple[Ended, Payload]:
    """Run a payload that writes its pid, and act once it has."""

    async def supervised() -> tuple[Ended, Payload]:
        payload = Payload(order(directory, *command, **limits), now() + lease)
        end = asyncio.create_task(payload.ended())
        await asyncio.to_thread(wait_for, (directory / "pid.ready").exists, "the payload starts")
        act(payload)
        return await end, payload

    return asyncio.run(supervised())


def is_gone(directory: Path) -> bool:
    return not of_environment(HOME=str(directory))


def test_a_payload_that_ends_well_has_no_error_and_is_measured(tmp_path: Path) -> None:
    ended = run(
        tmp_path, *python("x = bytearray(50_000_000)\nimport time\nwhile time.process_time() < 0.2: pass")
    )
    assert ended.error == ""
    assert ended.exit_code == 0
    assert 0.2 <= ended.cpu_seconds < 5
    assert ended.wall_seconds >= 0.2
    assert 50 <= ended.max_rss < 500
    assert ended.max_workdir == 0


def test_what_it_added_to_its_directory_is_measured_at_its_most_without_a_limit(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(bytes(5_000_000))
    ended = run(tmp_path, "sh", "-c", "head -c 3000000 /dev/zero > kept; head -c 2000000 /dev/zero > more")
    assert 5 <= ended.max_workdir < 5.1
    ended = run(tmp_path, "sh", "-c", "head -c 3000000 /dev/zero > big; sleep 3; rm big kept")
    assert 3 <= ended.max_workdir < 3.1


def test_output_goes_to_files_and_input_is_empty(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "cat; echo out; echo err >&2; pwd").error == ""
    assert (tmp_path / "stdout").read_text() == f"out\n{tmp_path}\n"
    assert (tmp_path / "stderr").read_text() == "err\n"


def test_a_payload_finds_only_the_environment_of_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTAGE_TOKEN", "secret")
    run(tmp_path, "env")
    names = {line.partition("=")[0] for line in (tmp_path / "stdout").read_text().splitlines()}
    assert names == {"PATH", "HOME"}


@pytest.mark.parametrize(
    ("command", "error", "code"),
    [
        (("sh", "-c", "exit 3"), "payload exited with code 3", 3),
        (("sh", "-c", "kill -SEGV $$"), "killed by signal 11 (SIGSEGV)", -11),
        (
            ("no-such-program",),
            "command 'no-such-program' cannot be started: No such file or directory",
            127,
        ),
        (("/etc/passwd",), "command '/etc/passwd' cannot be started: Permission denied", 127),
        (("echo", "nul\0"), "command 'echo' cannot be started: Invalid argument", 127),
    ],
)
def test_a_failure_is_named(tmp_path: Path, command: tuple[str, ...], error: str, code: int | None) -> None:
    ended = run(tmp_path, *command)
    assert (ended.error, ended.exit_code) == (error, code)


def test_walltime_is_enforced_on_a_payload_that_ignores_sigterm(tmp_path: Path) -> None:
    ended = run(tmp_path, "sh", "-c", "trap '' TERM HUP INT; sleep 600", walltime=0.3)
    assert ended.error.startswith("walltime exceeded: ")


def test_memory_of_all_processes_together_is_enforced(tmp_path: Path) -> None:
    text = """
        import os, time
        os.fork()
        x = b"x" * 120_000_000
        time.sleep(600)
    """
    ended = run(tmp_path, *python(text), memory=200)
    assert ended.error.startswith("memory exceeded: ")
    assert ended.error.endswith(" MB of 200")
    assert ended.max_rss > 200


def test_memory_that_processes_share_counts_once(tmp_path: Path) -> None:
    text = """
        import os, time
        x = b"x" * 120_000_000
        os.fork(), os.fork()
        time.sleep(1.2)
    """
    assert run(tmp_path, *python(text), memory=200).error == ""
    assert 120 <= run(tmp_path, *python(text)).max_rss < 250


def test_the_work_directory_is_bounded_while_the_payload_runs(tmp_path: Path) -> None:
    ended = run(tmp_path, "sh", "-c", "head -c 5000000 /dev/zero > big; sleep 600", workdir=2)
    assert ended.error == "work directory exceeded: 5 MB of 2"


def test_the_work_directory_is_bounded_at_the_end_too(tmp_path: Path) -> None:
    ended = run(tmp_path, "sh", "-c", "mkdir deep; head -c 5000000 /dev/zero > deep/big", workdir=2)
    assert ended.error == "work directory exceeded: 5 MB of 2"


def test_what_lay_there_before_does_not_count_as_the_payloads(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(bytes(5_000_000))
    assert run(tmp_path, "true", workdir=2).error == ""


def test_a_deleted_file_that_is_open_counts_in_the_work_directory(tmp_path: Path) -> None:
    text = """
        import os, time
        file = open("hidden", "wb")
        os.unlink("hidden")
        file.write(bytes(5_000_000))
        file.flush()
        time.sleep(600)
    """
    assert run(tmp_path, *python(text), workdir=2).error == "work directory exceeded: 5 MB of 2"


def test_folders_of_any_depth_neither_end_the_supervisor_nor_stay(tmp_path: Path) -> None:
    """Paths that are longer than the kernel takes are measured, or end their payload with a sentence."""
    place = tmp_path / "1.1"
    place.mkdir()
    make = "import os\nfor _ in range({}):\n os.mkdir('x' * 250)\n os.chdir('x' * 250)\n"
    ended = run(place, *python(make.format(60) + "open('big', 'wb').write(bytes(5_000_000))"), workdir=2)
    assert ended.error == "work directory exceeded: 5 MB of 2"
    workdir.remove(place)
    place.mkdir()
    ended = run(place, *python(make.format(300)), workdir=2)
    assert ended.error.startswith("work directory cannot be held to its limit: it has more than")
    workdir.remove(place)
    assert list(tmp_path.iterdir()) == []


def test_a_daemon_left_behind_is_killed_and_noted(tmp_path: Path) -> None:
    ended = run(tmp_path, *python(DAEMON))
    assert (ended.error, ended.note) == ("", "left processes behind: 1; they were killed")
    assert ended.exit_code == 0
    assert is_gone(tmp_path)


def test_a_strict_payload_that_leaves_a_daemon_has_failed(tmp_path: Path) -> None:
    ended = run(tmp_path, *python(DAEMON), strict_processes=True)
    assert ended.error == "left processes behind: 1; they were killed"
    assert is_gone(tmp_path)


def test_what_is_left_behind_is_held_to_the_work_directory(tmp_path: Path) -> None:
    ended = run(tmp_path, "sh", "-c", "head -c 5000000 /dev/zero > big; sleep 60 &", workdir=2)
    assert ended.error == "work directory exceeded: 5 MB of 2"


@pytest.mark.parametrize("script", [False, True], ids=["program", "interpreter"])
def test_a_program_that_containment_hides_is_named_with_what_shows_it(
    tmp_path: Path, way: str, script: bool
) -> None:
    (tmp_path / "job").mkdir()
    elsewhere = tmp_path / "software"
    elsewhere.mkdir()
    tool = elsewhere / "tool"
    tool.write_text("#!/bin/sh\necho well\n")
    tool.chmod(0o755)
    command = str(tool)
    if script:
        (tmp_path / "job" / "run").write_text(f"#!{tool}\n")
        (tmp_path / "job" / "run").chmod(0o755)
        command = "./run"
    ended = run(tmp_path / "job", command)
    if way == "none":
        assert ended.error == ""
        return
    what = "its interpreter " if script else ""
    assert ended.error == (
        f"command {command!r} cannot be started: No such file or directory: {what}{tool} is there at this "
        "node, but contained payloads do not see it; the queue's option computing_element.readable_paths "
        f"shows it to them (readable_paths: [{elsewhere}])"
    )
    missing = run(tmp_path / "job", str(elsewhere / "none"))
    assert missing.error.endswith("cannot be started: No such file or directory")


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("#!/usr/bin/env tool", ["./run"]),
        ("#!/usr/bin/env -S tool -x", ["./run"]),
        ("#!/usr/bin/env -S A=1 tool", ["./run"]),
        ("", ["sh", "-c", "cd tmp && {tool} x"]),
        ("", ["sh", "-c", "exec '{tool}'"]),
        ("", ["env", "{tool}"]),
        ("", ["sh", "-c", "test -e {tool} || exit 9"]),
    ],
)
def test_a_program_or_file_that_a_payload_does_not_find_is_named_where_it_is_hidden(
    tmp_path: Path, way: str, line: str, command: list[str]
) -> None:
    """Payloads start, and fail: most scripts name their interpreter by ``env``."""
    job, tool = tmp_path / "job", tmp_path / "software" / "tool"
    for folder in (job / "tmp", tool.parent):
        folder.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    (job / "run").write_text(f"{line}\n")
    (job / "run").chmod(0o755)
    path = f"{tool.parent}:{os.environ['PATH']}"
    ended = run(job, *(word.format(tool=tool) for word in command), environment={"PATH": path})
    if way == "none":
        assert ended.error == ""
        return
    assert ended.exit_code == (9 if "exit 9" in command[-1] else 127)
    assert f"{tool} is there at this node, but contained payloads do not see it" in ended.error
    assert f"(readable_paths: [{tool.parent}])" in ended.error


def test_an_exit_code_of_one_s_own_gets_no_hint(tmp_path: Path, way: str) -> None:
    ended = run(tmp_path, "sh", "-c", "cat /etc/passwd > copy; exit 127")
    assert ended.error.strip() == "payload exited with code 127"


@pytest.mark.parametrize(
    ("name", "told"), [("/nope/python", "'/nope/python'"), ("/bin/sh\r", r"'/bin/sh\r'")]
)
def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path, way: str, name: str, told: str) -> None:
    (tmp_path / "run").write_text(f"#!{name}\necho x\n", newline="")
    (tmp_path / "run").chmod(0o755)
    ended = run(tmp_path, "./run")
    assert ended.error.endswith(f"No such file or directory: its interpreter {told} is not there")


def test_a_child_that_ends_soon_after_the_payload_is_no_failure(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "(sleep 0.05; echo late > out) & exit 0").error == ""
    assert (tmp_path / "out").read_text() == "late\n"


def test_a_payload_that_keeps_forking_is_killed_whole(tmp_path: Path) -> None:
    """Each process lives for a moment only and its child goes on: none of them can be asked to end."""
    text = """
        import os, time
        os.setsid()
        while True:
            if os.fork() == 0:
                with open("pid", "w") as file:
                    file.write(str(os.getpid()))
                os.rename("pid", "pid.ready")
            else:
                os._exit(0)
    """
    ended = run(tmp_path, *python(f"import os\nif os.fork(): os._exit(0)\n{textwrap.dedent(text)}"))
    assert ended.note.startswith("left processes behind")
    before = (tmp_path / "pid.ready").read_text()
    time.sleep(0.2)
    assert (tmp_path / "pid.ready").read_text() == before


def test_stopping_kills_everything_and_tells_the_reason(tmp_path: Path) -> None:
    ended, _ = run_and(tmp_path, lambda payload: payload.stop("no longer wanted"), *python(SLEEPER))
    assert ended.error == "no longer wanted"
    assert is_gone(tmp_path)


def test_a_lease_that_is_not_renewed_kills_the_payload(tmp_path: Path) -> None:
    begun = now()
    ended = run(tmp_path, *python(SLEEPER), lease=1)
    assert ended.error == "stopped by its pilot: no contact with the server for longer than the lease"
    assert now() - begun >= 1
    assert is_gone(tmp_path)


def test_a_lease_that_is_over_starts_nothing(tmp_path: Path) -> None:
    assert "lease" in run(tmp_path, "touch", "started", lease=-1).error
    assert not (tmp_path / "started").exists()


def test_a_renewed_lease_lets_the_payload_live(tmp_path: Path) -> None:
    text = f"{SLEEPER.replace('600', '4')}"
    ended, _ = run_and(tmp_path, lambda payload: payload.renew(now() + 600), *python(text), lease=4)
    assert ended.error == ""
    assert ended.wall_seconds >= 4


def test_the_payload_dies_with_its_supervisor(tmp_path: Path) -> None:
    def kill(payload: Payload) -> None:
        os.kill(payload.pid, signal.SIGKILL)

    ended, payload = run_and(tmp_path, kill, *python(SLEEPER))
    assert payload.lost
    assert ended.error == "supervisor killed; its payload was killed with it"
    wait_for(lambda: is_gone(tmp_path), "the payload is gone")


def test_a_supervisor_shrugs_off_sigterm(tmp_path: Path) -> None:
    def terminate(payload: Payload) -> None:
        os.kill(payload.pid, signal.SIGTERM)
        payload.stop("asked to")

    ended, payload = run_and(tmp_path, terminate, *python(SLEEPER))
    assert not payload.lost
    assert ended.error == "asked to"


def test_everything_dies_with_an_agent_that_is_killed(tmp_path: Path) -> None:
    """The daemon is in a session of its own: only its payload can know of it."""
    place = tmp_path / "job"
    place.mkdir()
    agent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path\n"
            "from pilotage.agent.payload.payload import Order, Payload\n"
            "from pilotage.agent.machine import now\n"
            f"command = ('python3', '-c', {textwrap.dedent(DAEMON) + 'time.sleep(600)'!r})\n"
            f"order = Order(command=command, environment={{'PATH': {os.environ['PATH']!r}}},\n"
            f"    directory=Path({str(place)!r}))\n"
            "payload = Payload(order, now() + 600); print(payload.pid, flush=True); time.sleep(600)",
        ],
        stdout=subprocess.PIPE,
    )
    with agent:
        wait_for((place / "pid.ready").exists, "the daemon runs")
        daemon = psutil.Process(int((place / "pid.ready").read_text()))
        agent.kill()
    wait_for(lambda: has_ended(daemon), "the daemon is gone")
    wait_for(lambda: not place.exists(), "the job directory is deleted")


def test_a_payload_has_a_time_line_of_what_it_used(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        *python("""
        import os, socket, time
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname())
        client.sendall(b"x" * 50_000)
        with open("tmp/data", "wb") as file:
            file.write(os.urandom(5_000_000))
            os.fsync(file.fileno())
        while time.process_time() < 1.5: pass
        kept = bytearray(50_000_000)
        time.sleep(3)
        """),
    )
    assert ended.error == ""
    assert len(ended.points) >= 2
    times, cpu, memory, _, written, _, sent = zip(*ended.points, strict=True)
    assert list(times) == sorted(times)
    assert cpu[-1] >= 1.5
    assert max(memory) > 50
    assert written[-1] >= 5000
    assert sent[-1] >= 50


def test_very_long_output_takes_bounded_disk_and_keeps_its_beginning_and_end(tmp_path: Path) -> None:
    """70 MB in one go, then a line at a time: the file keeps its size, and most of it no disk."""
    ended = run(
        tmp_path,
        *python("""
        import os, sys, time
        print("first")
        for _ in range(140):
            sys.stdout.write("x" * 500_000)
        sys.stdout.flush()
        time.sleep(1.5)
        print("last", flush=True)
        """),
        cut=True,
    )
    assert ended.error == ""
    found = (tmp_path / "stdout").stat()
    assert found.st_size > 70_000_000
    # A cut at 64 MB leaves the first and a quarter; at most 6 MB come after it.
    assert found.st_blocks * 512 < STREAM_HEAD + LONGEST_STREAM // 4 + 8_000_000
    out = (tmp_path / "stdout").read_bytes()
    assert out.startswith(b"first\nxxx")
    assert out.endswith(b"xxxlast\n")


def test_a_payload_out_of_control_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    command = "for n in 1 2 3 4 5 6 7 8 9; do sleep 600 & done; wait"
    ended = run(tmp_path, "sh", "-c", command, processes=8)
    assert ended.error in [f"too many processes: {found} of 8 at once" for found in (9, 10)]
    assert is_gone(tmp_path)


def test_files_in_shared_memory_are_bounded_by_the_memory_limit(tmp_path: Path, way: str) -> None:
    """Nobody counts them where there is no control group: they are no process's memory, and on no disk."""
    if way != "namespaces":
        pytest.skip("the others leave the size of /dev/shm to their system")
    command = (
        "head -c 40000000 /dev/zero > /dev/shm/a && echo well && head -c 40000000 /dev/zero > /dev/shm/b"
    )
    ended = run(tmp_path, "sh", "-c", command, memory=60)
    assert ended.exit_code == 1
    assert (tmp_path / "stdout").read_text() == "well\n"
    assert "No space left on device" in (tmp_path / "stderr").read_text()
