"""What a pilot finds of its node, what it claims of that, and what its payloads are given."""

import os
import signal
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from pilotage.agent import node
from pilotage.agent.command import claim, parser
from pilotage.agent.jobs import JobRunner
from pilotage.agent.node import Resources, look
from pilotage.agent.payload.attempt import Attempt
from pilotage.agent.pilot_job import LeaseTimes, PilotJob
from pilotage.agent.wire import JobOrder, Node, Work
from tests.waiting import PATIENCE, wait_for

from .processes import of_environment
from .test_agent import HANG, Site, sh, site

__all__ = ["site"]


def test_a_machine_without_a_batch_system_confines_nothing_by_variables(tmp_path: Path) -> None:
    found = look(tmp_path, {})
    assert found.machine_cores == os.cpu_count()
    assert found.machine_memory > 100
    assert found.disk > 0
    assert found.walltime == 0
    assert found.python.startswith("3.")


def test_a_batch_system_tells_cores_memory_time_and_gpus(tmp_path: Path) -> None:
    end = int(time.time()) + 5000
    found = look(
        tmp_path,
        {
            "SLURM_CPUS_ON_NODE": "1",
            "SLURM_MEM_PER_CPU": "1000",
            "SLURM_JOB_END_TIME": str(end),
            "CUDA_VISIBLE_DEVICES": "0, 2",
        },
    )
    assert found.cores == 1
    assert found.memory == 1048
    assert 4900 < found.walltime <= 5000
    assert found.gpus == ("0", "2")
    assert look(tmp_path, {"CUDA_VISIBLE_DEVICES": ""}).gpus == ()
    assert look(tmp_path, {"SLURM_CPUS_ON_NODE": "many", "SLURM_JOB_END_TIME": "soon"}).walltime == 0


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({"a/b/cpu.max": "150000 100000", "a/memory.max": "2000000000", "a/b/memory.max": "max"}, 1, 2000),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 1, 0),
    ],
)
def test_cgroups_confine_a_slot_and_those_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cores: int, memory: float
) -> None:
    """The files are ours: a test cannot make cgroups everywhere."""
    (tmp_path / "a/b").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    own = tmp_path / "self"
    own.mkdir()
    (own / "cgroup").write_text("0::/a/b\n1:cpuset:/elsewhere\n")
    (own / "mountinfo").write_text(f"31 30 0:27 / {tmp_path} rw - cgroup2 cgroup rw\n")
    monkeypatch.setattr(node, "_PROCESS", own)
    found = look(tmp_path, {})
    assert (found.cores, found.memory) == (cores, memory)


@pytest.mark.parametrize(
    ("asked", "confined", "claimed"),
    [
        (("--cores=4", "--memory=8000", "--walltime=7200"), Node(), (4, 8000, 7200, 1)),
        (
            ("--cores=4", "--memory=8000", "--walltime=7200", "--slots=0"),
            Node(cores=2, memory=3000, walltime=600),
            (2, 3000, 600, 2),
        ),
        (("--cores=0",), Node(cores=3, machine_cores=16), (3, 0, 86_400, 1)),
        (("--cores=0", "--slots=0"), Node(machine_cores=16), (16, 0, 86_400, 16)),
        (("--cores=1",), Node(cores=3, memory=3000, machine_cores=16), (1, 3000, 86_400, 1)),
    ],
)
def test_a_claim_is_what_was_ordered_within_what_there_is(
    tmp_path: Path, asked: tuple[str, ...], confined: Node, claimed: tuple[float, ...]
) -> None:
    found = claim(parser().parse_args(asked), confined, tmp_path)
    assert (found.cores, found.memory, found.walltime, found.slots) == claimed


@pytest.mark.slow
def test_payloads_side_by_side_have_gpus_of_their_own_and_those_without_see_none(
    site: Site,
) -> None:
    site.server.idle = 2  # so that it asks once more when all have ended
    show = sh("echo $CUDA_VISIBLE_DEVICES > gpus; sleep 0.5")
    site.server.works = [
        [
            site.work(*show, outputs=["gpus"], gpus=2),
            site.work(*show, outputs=["gpus"], gpus=1, first=2),
            site.work(*show, outputs=["gpus"], first=3),
            site.work(*show, outputs=["gpus"], gpus=2, first=4),
        ]
    ]
    site.run("--slots=4", "--cores=4", CUDA_VISIBLE_DEVICES="GPU-a,GPU-b,GPU-c")
    seen = [(site.scratch(f"{job}.1") / "gpus").read_text().strip() for job in (1, 2, 3)]
    assert seen == ["GPU-a,GPU-b", "GPU-c", ""]
    assert site.server.last(4).error.startswith("2 GPUs are asked for, 0 are free here")
    assert site.server.matches[0]["gpus"] == 3
    assert site.server.matches[-1]["gpus"] == 3


@pytest.mark.slow
def test_the_node_is_told_once(site: Site) -> None:
    site.server.idle = 5
    with site.agent() as agent:
        wait_for(lambda: any(match["found"] for match in site.server.matches), "the node is told")
        wait_for(lambda: not site.server.matches[-1]["found"], "a match without it")
        agent.terminate()
        agent.wait(PATIENCE)
    (told,) = [match["found"] for match in site.server.matches if match["found"]]
    assert told["machine_cores"] == os.cpu_count()


@pytest.mark.slow
def test_a_pilot_that_is_warned_takes_nothing_more_and_delivers_what_it_has(site: Site) -> None:
    go = site.shared / "go"
    script = f"touch {site.mark}; until [ -e {go} ]; do sleep 0.05; done; echo fine > out"
    site.server.works = [[site.work(*sh(script), outputs=["out"])], [site.work("true", first=2)]]
    with site.agent("--slots=2") as agent:
        wait_for(site.mark.exists, "a payload runs")
        agent.send_signal(signal.SIGUSR1)
        asked = len(site.server.matches)
        go.touch()
        assert agent.wait(PATIENCE) == 0
    assert (site.scratch() / "out").read_text() == "fine\n"
    assert site.server.last().state == "done"
    assert len(site.server.matches) <= asked + 1
    assert site.server.ended == ["warned by signal 10 (SIGUSR1) that its slot ends"]


@pytest.mark.slow
def test_a_pilot_whose_slot_ends_early_ends_before_it(site: Site) -> None:
    end = str(int(time.time()) + 10)
    site.server.works = [[site.work("python3", "-c", HANG)]]
    site.run("--walltime=5000", SLURM_JOB_END_TIME=end)
    assert site.server.matches[0]["walltime"] < 11
    assert site.server.last().error.startswith("the pilot's walltime is over")
    assert of_environment(MARK=str(site.mark)) == []


@pytest.mark.slow
def test_a_pilot_on_a_full_disk_takes_no_jobs_and_says_why(site: Site) -> None:
    site.server.works = [[site.work("true")]]
    assert site.run("--least-disk=1e15") == 0
    assert site.server.matches == []
    (reason,) = site.server.ended
    assert reason.startswith("only ")
    assert f"MB are free in {site.place}" in reason
    assert site.server.unfit


def test_a_pilot_that_is_stopped_kills_what_runs_and_lets_what_has_ended_be_stored(tmp_path: Path) -> None:
    runner = JobRunner(Mock(), Resources(directory=tmp_path), Mock())
    runs, stores = (
        PilotJob(
            Attempt(Work(task=1, command=("true",)), JobOrder(1, number, "scratch")),
            0,
            LeaseTimes(1, 1),
            stored=stored,
        )
        for number, stored in enumerate((False, True))
    )
    runner.working |= {runs, stores}
    runner.kill_all("stopped by a signal")
    assert (runs.stopping, stores.stopping) == ("stopped by a signal", "")
