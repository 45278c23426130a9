"""The computing element of kind ``ssh`` against a real SSH server, on a machine without a batch system."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.ssh import Ssh
from tests.agent.fake_pilot_server import TOKEN, FakeServer
from tests.waiting import has_ended, wait_for

from .login import LoginNode
from .test_slurm import orders


def test_it_keeps_the_contract(machine: LoginNode, tmp_path: Path) -> None:
    options = {"spool": str(tmp_path / "spool"), **machine.options}
    with FakeServer(idle=600).serving() as server:
        assert violations(Ssh, options, orders(server, 3)) == []


def test_a_pilot_outlives_the_connection_and_is_found_again(machine: LoginNode, tmp_path: Path) -> None:
    options = {"spool": str(tmp_path / "spool"), **machine.options}
    with FakeServer(idle=600).serving() as server:
        asked = orders(server, 2)
        references = [answer.reference for answer in Ssh(options).submit(asked)]
        wait_for(lambda: len(server.matches) >= 2, "both ask for work")
        machine.cut()
        element = Ssh(options)
        assert [answer.reference for answer in element.submit(asked)] == references, "a name is taken once"
        assert {status.state for status in element.poll(references).values()} == {"running"}
        pid = int(references[0].partition(".")[0])
        session = psutil.Process(pid).children(recursive=True)
        assert session
        element.cancel(references[:1])
        wait_for(lambda: element.poll(references)[references[0]].state == "ended", "it ends")
        wait_for(lambda: all(map(has_ended, session)), "nothing of it is left")
        other = element.poll(references)[references[1]]
        assert other.state == "running", other
        assert server.ended == ["pilot stopped by signal 15 (SIGTERM)"]
        element.cancel(references)
        wait_for(lambda: element.poll(references)[references[1]].state == "ended", "it ends")
        assert TOKEN not in str(element.poll(references))


def test_it_needs_a_machine() -> None:
    with pytest.raises(ValueError, match="name the machine"):
        Ssh({})


def test_it_is_added_to_a_federation(machine: LoginNode, tmp_path: Path) -> None:
    file = tmp_path / "federation.yaml"
    command = [sys.executable, "-m", "pilotage.cli", "federation"]
    added = subprocess.run(
        [*command, "add", "ssh", machine.options["ssh"], "--site", "box", "--file", str(file), "--json",
         "--ssh-config", machine.options["ssh_config"]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert added.returncode == 0, added.stderr
    (queue,) = json.loads(added.stdout)["queues"]
    assert queue["computing_element"]["kind"] == "ssh"
    assert queue["computing_element"]["max_pilots"] == len(os.sched_getaffinity(0))
    checked = subprocess.run([*command, "check", str(file)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
