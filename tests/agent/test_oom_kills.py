"""What the kernel killed for lack of memory in the slot counts as exceeded memory."""

from pathlib import Path

import pytest

from pilotage.agent.oom_kills import explained, oom_kills
from pilotage.model.rules.retry_causes import MEMORY

KILLED = "killed by signal 9 (SIGKILL)"


def processes(place: Path, version: int, events: str) -> Path:
    """A process whose control group says this."""
    group = place / "tree/slot"
    group.mkdir(parents=True)
    (group / {1: "memory.oom_control", 2: "memory.events"}[version]).write_text(events)
    (group / "cgroup.controllers").write_text("memory pids")
    kind = {1: "cgroup rw,memory", 2: "cgroup2 rw"}[version].split()
    (place / "cgroup").write_text({1: "4:memory:/slot\n", 2: "0::/slot\n"}[version])
    options = "rw,memory" if version == 1 else "rw"
    (place / "mountinfo").write_text(f"30 23 0:26 / {place}/tree rw,nosuid - {kind[0]} none {options}\n")
    return place


@pytest.mark.parametrize(
    ("version", "events"),
    [(2, "low 0\nhigh 0\nmax 21\noom 4\noom_kill 3\n"), (1, "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")],
)
def test_kills_of_the_slot_are_counted(tmp_path: Path, version: int, events: str) -> None:
    assert oom_kills(processes(tmp_path, version, events)) == 3


def test_where_nothing_counts_there_are_none(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) == 0


@pytest.mark.parametrize("code", [-9, 137, None])
def test_a_killed_payload_exceeded_the_memory(code: int | None) -> None:
    assert explained(KILLED, code, 1).startswith(MEMORY)
    assert KILLED in explained(KILLED, code, 1)


@pytest.mark.parametrize(
    ("error", "code", "kills"), [(KILLED, -9, 0), ("exited with code 1", 1, 2), ("", 0, 1)]
)
def test_other_ends_are_their_own(error: str, code: int, kills: int) -> None:
    assert explained(error, code, kills) == error
