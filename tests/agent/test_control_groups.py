"""Control groups of payloads: real ones where this machine lets us make them, and files of version 2."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pilotage.agent.payload import control_group, delegated_groups
from pilotage.agent.payload.containment import WITH_INIT
from pilotage.agent.payload.control_group import ControlGroup, read, remove
from pilotage.agent.payload.delegated_groups import LEAF, DelegatedGroups, Hierarchy, find
from pilotage.agent.payload.payload import Payload
from tests.waiting import PATIENCE, wait_for

from .processes import of_environment
from .test_agent import Site, site
from .test_payload import DAEMON, WAY, holding, python, run, run_and

__all__ = ["holding", "site"]

UNIFIED = Path("/sys/fs/cgroup/unified")


@pytest.fixture(scope="session")
def real() -> DelegatedGroups:
    """The control groups of this machine."""
    found = find()
    if not {"memory", "pids"} <= set(found.parents):
        pytest.skip(f"no control groups for memory and processes can be made here: {found.fault}")
    return found


def left(found: DelegatedGroups) -> list[Path]:
    """Groups of payloads of this process that are still there."""
    own = f"pilotage-*-{os.getpid()}-*"
    return [path for parent in set(found.parents.values()) for path in Path(parent).glob(own)]


@pytest.fixture(params=["none", *WITH_INIT])
def contained(request: pytest.FixtureRequest, holding: set[str]) -> Iterator[str]:
    """The way in which a payload is contained."""
    way: str = request.param
    if way not in {"none", *holding}:
        pytest.skip(f"this machine has no {way}")
    WAY[0] = way
    yield way
    WAY[0] = "none"


@pytest.mark.slow
@pytest.mark.usefixtures("contained")
def test_the_kernel_holds_a_payload_with_all_its_processes_to_its_memory(
    tmp_path: Path, real: DelegatedGroups
) -> None:
    text = "import os, time\nos.fork()\nx = b'x' * 120_000_000\ntime.sleep(600)"
    ended = run(tmp_path, *python(text), memory=200, group=real.group("1.1"))
    assert ended.error == "memory exceeded: 200 MB of 200, killed by its control group"
    assert 190 < ended.max_rss < 260
    assert not of_environment(HOME=str(tmp_path))
    assert left(real) == []


@pytest.mark.slow
def test_files_that_a_payload_reads_and_writes_are_not_its_memory(
    tmp_path: Path, real: DelegatedGroups
) -> None:
    text = "data = b'x' * 1_000_000\nwith open('big', 'wb') as file:\n  for n in range(150): file.write(data)"
    ended = run(tmp_path, *python(text), memory=60, group=real.group("1.1"))
    assert ended.error == ""
    assert 0 < ended.max_rss < 60
    assert 0 < ended.cpu_seconds < 5


@pytest.mark.slow
def test_threads_beyond_the_limit_are_refused_and_named(tmp_path: Path, real: DelegatedGroups) -> None:
    text = (
        "import threading, time\nfor n in range(200): threading.Thread(target=time.sleep, args=(2,)).start()"
    )
    ended = run(tmp_path, *python(text), processes=8, group=real.group("1.1"))
    assert ended.error == "too many processes: with threads 72 at once, held by its control group"
    assert left(real) == []


@pytest.mark.slow
def test_a_contained_payload_cannot_change_its_group(
    tmp_path: Path, real: DelegatedGroups, contained: str
) -> None:
    if contained not in WITH_INIT:
        pytest.skip("a payload that is not contained may do what its user may")
    group = real.group("1.1")
    own = group["folders"]["memory"]
    files = (real.parents["memory"] + "/cgroup.procs", f"{own}/memory.limit_in_bytes", f"{own}/memory.max")
    script = "; ".join(f"echo 0 > {file}" for file in files)
    ended = run(tmp_path, "sh", "-c", f"{script}; exec sleep 0.1", memory=200, group=group)
    assert ended.error == ""
    assert (tmp_path / "stderr").read_text().count("cannot create") == 3


@pytest.mark.slow
def test_a_group_that_cannot_be_made_leaves_watching(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    group = {"version": 2, "folders": {"memory": str(tmp_path / "gone/group")}}
    with caplog.at_level(logging.WARNING):
        ended = run(
            tmp_path, *python("x = b'x' * 300_000_000\nimport time; time.sleep(600)"), memory=200, group=group
        )
    assert ended.error.startswith("memory exceeded: ")
    assert ended.error.endswith(" MB of 200")
    assert "no control group: " in caplog.text
    assert "No such file or directory" in caplog.text


@pytest.mark.slow
def test_a_daemon_is_killed_with_its_group(tmp_path: Path, real: DelegatedGroups) -> None:
    ended = run(tmp_path, *python(DAEMON), group=real.group("1.1"))
    assert ended.note == "left processes behind: 1; they were killed"
    assert left(real) == []


def _orphan(real: DelegatedGroups) -> tuple[subprocess.Popen[bytes], int]:
    """An agent that has made the group of a payload and sleeps, and the payload's process."""
    agent = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "import subprocess, time\n"
            "from pilotage.agent.payload.control_group import ControlGroup\n"
            "from pilotage.agent.payload.delegated_groups import DelegatedGroups\n"
            f"group = ControlGroup(**DelegatedGroups({real.version}, {dict(real.parents)!r}).group('1.1'))\n"
            "group.make(0, 0, 1)\n"
            "payload = subprocess.Popen(['sleep', '600'])\n"
            "group.add(payload.pid)\n"
            "print(payload.pid, flush=True)\n"
            "time.sleep(600)",
        ],
        stdout=subprocess.PIPE,
    )
    assert agent.stdout
    return agent, int(agent.stdout.readline())


@pytest.mark.slow
def test_groups_of_an_agent_that_was_killed_go_at_the_next_start(real: DelegatedGroups) -> None:
    agent, payload = _orphan(real)
    with agent:
        folders = [path for one in set(real.parents.values()) for path in Path(one).glob(f"*-{agent.pid}-*")]
        assert folders
        find()
        assert all(folder.exists() for folder in folders), "the agent lives"
        agent.kill()
    find()
    assert not any(folder.exists() for folder in folders)
    wait_for(lambda: not psutil.pid_exists(payload), "its payload is gone")


@pytest.mark.slow
def test_a_group_goes_though_its_supervisor_was_killed(tmp_path: Path, real: DelegatedGroups) -> None:
    def kill(payload: Payload) -> None:
        os.kill(payload.pid, signal.SIGKILL)

    sleeper = "import os, time; open('pid.ready', 'w').close(); time.sleep(600)"
    _, payload = run_and(tmp_path, kill, *python(sleeper), group=real.group("1.1"))
    assert payload.lost
    assert left(real)
    real.remove("1.1")
    assert left(real) == []


@pytest.mark.slow
def test_an_agent_tells_what_holds_payloads_and_a_site_may_do_without(
    site: Site, real: DelegatedGroups
) -> None:
    eat = python("x = b'x' * 300_000_000\nimport time; time.sleep(600)")
    for options, by, error in (
        ((), real.name, "memory exceeded: 200 MB of 200, killed by its control group"),
        (("--no-control-groups",), "watching", "memory exceeded: "),
    ):
        site.server.works = [[site.work(*eat, memory_limit=200)]]
        site.server.matches.clear()
        site.run(*options)
        (told,) = [match["found"] for match in site.server.matches if match["found"]]
        assert told["limited_by"] == by
        assert set(told["limits"]) == (set() if options else set(real.parents))
        assert site.server.last().error.startswith(error)
        assert ("control group" in site.server.last().error) != bool(options)


# Version 2


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files like those of version 2, with a process in a group of its own."""
    root = tmp_path / "cgroup"
    (root / "slot").mkdir(parents=True)
    for place in (root, root / "slot"):
        (place / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
        (place / "cgroup.subtree_control").write_text("")
        (place / "cgroup.procs").write_text("")
    process = tmp_path / "process"
    process.mkdir()
    (process / "cgroup").write_text("0::/outer/slot\n")
    (process / "mountinfo").write_text(f"31 30 0:27 /outer {root} rw - cgroup2 cgroup rw\n")
    return root


def test_the_files_of_version_2_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "group"
    group = ControlGroup(2, dict.fromkeys(("cpu", "memory", "pids"), str(folder)))
    group.make(200_000_000, 1000, 4)
    group.add(77)
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written == {
        "memory.max": "200000000",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "1064",
        "cpu.weight": "400",
        "cgroup.procs": "77",
    }


def test_what_version_2_counts_is_read(tmp_path: Path) -> None:
    group = ControlGroup(2, dict.fromkeys(("cpu", "memory", "pids"), str(tmp_path)))
    assert (group.memory(), group.cpu(), list(group.exceeded())) == (0, 0, [])
    (tmp_path / "memory.stat").write_text("anon 5000\nfile 70000\nkernel 10\nshmem 600\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\n")
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\n")
    (tmp_path / "memory.peak").write_text("199999488\n")
    (tmp_path / "pids.events").write_text("max 0\n")
    assert (group.memory(), group.cpu()) == (5600, 2.5)
    assert list(group.exceeded()) == [("group memory", 199_999_488)]


def test_a_group_of_version_2_is_found_where_containers_mount_a_part(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its files are ours, so that the trial's group cannot be removed: that is told, and no more."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(control_group, "REMOVAL", 0.0)
    found = find(tmp_path / "process")
    assert (found.name, found.fault) == ("cgroup v2", "")
    assert dict(found.parents) == dict.fromkeys(("cpu", "memory", "pids"), str(tree / "slot"))
    assert (tree / "slot/cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert "Directory not empty" in caplog.text


def test_root_orders_no_group_that_nobody_delegated(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = find(tmp_path / "process")
    assert (found.name, found.fault) == ("watching", f"cgroup v2: {tree}/slot is not delegated")
    assert found.group("1.1") == {}
    (tmp_path / "process/mountinfo").write_text("")
    assert find(tmp_path / "process").fault == "this machine shows no control groups"


@pytest.fixture
def inhabited() -> Iterator[tuple[Path, int]]:
    """A real group of version 2 with a controller, and a process in it."""
    root, group = UNIFIED, UNIFIED / f"delegated-{os.getpid()}"
    if "hugetlb" not in read(str(root / "cgroup.controllers")):
        pytest.skip(f"{root} has no controller to try with")
    given = "hugetlb" in read(str(root / "cgroup.subtree_control"))
    try:
        group.mkdir()
        os.setxattr(group, "trusted.delegate", b"1")
        (root / "cgroup.subtree_control").write_text("+hugetlb")
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"groups cannot be delegated here: {error}")
    with subprocess.Popen(["sleep", "600"]) as process:
        (group / "cgroup.procs").write_text(str(process.pid))
        yield group, process.pid
        assert remove(str(group)) == ""
        assert process.wait(PATIENCE) == -signal.SIGKILL
    if not given:
        (root / "cgroup.subtree_control").write_text("-hugetlb")


@pytest.mark.slow
def test_what_is_in_a_group_of_version_2_goes_to_a_leaf_first(inhabited: tuple[Path, int]) -> None:
    group, process = inhabited
    own = Hierarchy(2, ("hugetlb",), UNIFIED, group)
    assert delegated_groups._opened(own, ("hugetlb",)) == group
    assert (group / LEAF / "cgroup.procs").read_text().split() == [str(process)]
    assert (group / "cgroup.subtree_control").read_text().split() == ["hugetlb"]
    again = Hierarchy(2, ("hugetlb",), UNIFIED, group / LEAF)
    assert delegated_groups._opened(again, ("hugetlb",)) == group
