"""The kind of a failed attempt: of its payload, the disk of its node, or its pilot."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pilotage.agent.files.file_access import StorageRoutes
from pilotage.agent.files.transfer import fetch
from pilotage.agent.payload import workdir
from pilotage.agent.payload.attempt import Attempt, AttemptFailedError, NodeFailedError
from pilotage.agent.payload.node_disk import disk_fault
from pilotage.agent.wire import JobInput, JobOrder, Work
from tests.chaos.disks import SmallDisk
from tests.waiting import wait_for

from .test_agent import HANG, Site, sh, site

__all__ = ["site"]
PREPARED = sh('touch "$MARK"; while ! test -e "$MARK.go"; do sleep 0.05; done; $ACT; sleep "$LAST"; exit 3')
"""It runs a command when told, then waits, and fails."""


@pytest.fixture
def disk(site: Site) -> Iterator[SmallDisk]:
    """A disk of 60 MB, on which pilots work."""
    site.place.mkdir()
    if (disk := SmallDisk.mounted(site.place, "60m")) is None:
        pytest.skip("only root may mount a disk")
    yield disk
    disk.unmount()


def failed(site: Site, disk: SmallDisk, act: str, last: float, *, is_full: bool, clears: bool) -> Any:
    """Run a payload that fails, and fill the disk meanwhile. Return its report."""
    environment = {"MARK": str(site.mark), "ACT": act, "LAST": str(last)}
    site.server.works = [[site.work(*PREPARED, environment=environment)]]
    with site.agent("--least-disk=20"):
        wait_for(site.mark.exists, "a payload that runs")
        if is_full:
            disk.fill()
        if clears:
            # It looks twice a second.
            time.sleep(1.5)
            disk.clear()
        site.mark.with_name("mark.go").touch()
        wait_for(lambda: "failed" in site.server.states(), "its failure")
    return site.server.last()


@pytest.mark.parametrize(
    ("act", "is_full", "clears", "kind", "words"),
    [
        ("true", False, False, "payload", ""),
        ("true", True, False, "disk", "the disk of the pilot is full"),
        ("true", True, True, "disk", "the disk of the pilot was full"),
        ("head -c 30000000 /dev/zero", False, False, "payload", ""),
        ("cp /dev/zero large", False, False, "payload", "the disk of the pilot is full"),
    ],
)
def test_f3_a_full_disk_is_its_node_s_fault_unless_the_payload_filled_it(
    site: Site, disk: SmallDisk, act: str, is_full: bool, clears: bool, kind: str, words: str
) -> None:
    report = failed(site, disk, act, 0.7, is_full=is_full, clears=clears)
    assert (report.exit_code, report.kind) == (3, kind), report.error
    assert words in report.error
    assert bool(words) is ("disk" in report.error)


def test_a_directory_that_cannot_be_made_or_filled_is_its_node_s_fault(site: Site, disk: SmallDisk) -> None:
    attempt = Attempt(Work(task=1, command=("true",)), JobOrder(1, 1, "scratch"))

    def prepare(directory: Path, files: dict[str, str]) -> None:
        workdir.prepare(attempt, directory, files)

    disk.fill()
    with pytest.raises(NodeFailedError, match=r"job directory: .*No space left"):
        prepare(site.place / "1.1", {"large": "x" * 100_000})
    disk.clear()
    disk.forbid_writing()
    with pytest.raises(NodeFailedError, match=r"job directory: .*Read-only"):
        prepare(site.place / "1.1", {})
    words, is_nodes = disk_fault(site.place, 20, 0, 1000)
    assert (is_nodes, "Read-only" in words) == (True, True)
    (site.root / "file").touch()
    with pytest.raises(NodeFailedError, match="Not a directory"):
        prepare(site.root / "file" / "1.1", {})


def test_a_name_that_no_file_may_have_is_nobody_else_s_fault(site: Site) -> None:
    file, attempt = (
        JobInput("x" * 300 + "/y", 1),
        Attempt(Work(task=1, command=()), JobOrder(1, 1, "scratch")),
    )
    with pytest.raises(AttemptFailedError, match="File name too long") as failure:
        fetch(StorageRoutes(None), attempt, file, site.root / file.name, lambda: False)  # type: ignore[arg-type]
    assert not isinstance(failure.value, NodeFailedError)


def test_a_payload_that_passes_a_limit_on_a_full_disk_is_to_blame(site: Site, disk: SmallDisk) -> None:
    site.server.works = [[site.work("python3", "-c", HANG, walltime=2)]]
    with site.agent("--least-disk=20"):
        site.payload()
        disk.fill()
        wait_for(lambda: "failed" in site.server.states(), "its failure")
    assert site.server.last().error.startswith("walltime exceeded")
    assert site.server.last().kind == "walltime"


def test_a_payload_whose_lease_ends_is_its_pilot_s_fault(site: Site) -> None:
    site.server.works = [[site.work("python3", "-c", HANG, lease=1.0, first_lease=1.0)]]
    with site.agent() as agent:
        payload = site.payload()
        process = psutil.Process(agent.pid)
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: not psutil.pid_exists(payload.pid), "the end of its lease")
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: "failed" in site.server.states(), "its failure")
    assert site.server.last().error.startswith("stopped by its pilot")
    assert site.server.last().kind == "pilot"
