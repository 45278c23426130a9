"""What the kernel killed for lack of memory in the slot counts as exceeded memory."""

from pathlib import Path

import pytest

from pilotage.agent.payload.oom_kills import memory_cause, oom_kills


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


@pytest.mark.parametrize(
    ("code", "kills", "used", "limit", "cause"),
    [
        (-9, 1, 10, 100, "slot memory"),
        (137, 1, 10, 0, "slot memory"),
        (None, 1, 0, 0, "slot memory"),
        (137, 0, 100, 100, "memory"),
        (-9, 0, 120, 100, "memory"),
        (-9, 0, 90, 100, ""),
        (137, 0, 120, 0, ""),
        (1, 2, 120, 100, ""),
        (0, 1, 120, 100, ""),
    ],
)
def test_a_payload_or_its_command_was_killed_for_lack_of_memory(
    code: int | None, kills: int, used: float, limit: float, cause: str
) -> None:
    assert memory_cause(code, kills, used, limit) == cause


@pytest.mark.parametrize(
    ("code", "cause"), [(1, "slot memory"), (137, "slot memory"), (0, ""), (None, "slot memory")]
)
def test_a_kill_in_the_slot_is_of_the_one_payload_there_whatever_its_shell_ends_with(
    code: int | None, cause: str
) -> None:
    assert memory_cause(code, 1, 10, 100, alone=True) == cause
    assert memory_cause(code, 0, 10, 100, alone=True) == ""
