"""Trials over several processes: the same as one after another; what fails is named, nothing stays behind."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from threading import Thread

import psutil
import pytest
from typer.testing import CliRunner

from pilotage.cli.app import app
from pilotage.simulation.parallel import trials
from pilotage.simulation.reading import Case, read
from pilotage.simulation.swf import LoggedJob
from pilotage.simulation.trials import TrialFailed
from tests.waiting import has_ended, wait_for

from .test_trials import FEW, small

FIFTY_RUNS = """
import sys
from pathlib import Path
from pilotage.simulation.parallel import trials
from pilotage.simulation.reading import read
trials(read(Path(sys.argv[1])), ["pilotage"], range(50), 2, lambda: None)
"""
pytestmark = pytest.mark.slow


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Four jobs."""
    return read(small(tmp_path, scenario=FEW))


def test_two_processes_find_what_one_finds_in_the_same_order(case: Case) -> None:
    ended: list[int] = []
    by_two = trials(case, ["pilotage", "random"], [1, 2], 2, lambda: ended.append(1))
    by_one = trials(case, ["pilotage", "random"], [1, 2], 1, lambda: None)
    assert [replace(one, seconds=0) for one in by_two] == [replace(one, seconds=0) for one in by_one]
    assert len(ended) == 4


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_fails_is_named_and_ends_the_others(case: Case, workers: int) -> None:
    with pytest.raises(TrialFailed, match="policy unheard with seed 7: UnknownPolicy: there is no policy"):
        trials(case, ["pilotage", "unheard"], [7], workers, lambda: None)
    wait_for(lambda: not active_children(), "the end of its processes")


def test_a_process_that_is_killed_is_told(case: Case) -> None:
    def kill() -> None:
        # The one that has made a run, and so has one: the other may still be beginning.
        max(psutil.Process().children(), key=lambda process: process.cpu_times().user).kill()

    with pytest.raises(TrialFailed, match=r"policy pilotage with seed .*: its process was killed"):
        trials(case, ["pilotage"], range(1, 7), 2, kill)


def test_a_process_that_is_killed_as_it_starts_is_told(case: Case) -> None:
    """However much there is to send to it: more than a pipe holds would be in the way of a pool."""
    case = replace(case, log=tuple(LoggedJob(number, 0, 1, 1, 1) for number in range(10_000)))

    def kill() -> None:
        wait_for(active_children, "a process")
        os.kill(active_children()[0].pid or 0, signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    with pytest.raises(TrialFailed, match="was killed; where memory is short, take fewer workers"):
        trials(case, ["pilotage"], [1, 2, 3], 2, lambda: None)
    killer.join()
    assert not active_children()


def test_processes_end_with_a_command_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", FIFTY_RUNS, str(small(tmp_path))]) as command:
        process = psutil.Process(command.pid)
        wait_for(lambda: len(process.children()) == 3, "two processes and their tracker")
        begun = process.children()
        command.kill()
    wait_for(lambda: all(map(has_ended, begun)), "their end")


def test_seeds_and_workers_are_of_scenarios(tmp_path: Path) -> None:
    for words in (["--seeds", "2"], ["--workers", "1"]):
        found = CliRunner().invoke(app, ["simulate", "--replay", str(tmp_path / "world.yaml"), *words])
        assert (
            found.exit_code,
            "seeds and workers are not for saved worlds" in " ".join(found.output.split()),
        ) == (
            2,
            True,
        )
