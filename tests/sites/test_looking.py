"""Whoever only looks changes nothing at a site, whatever its computing elements and storages are."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.acceptance.house import House, running
from tests.movers.xrootd import xrootd
from tests.waiting import wait_for

from .login import LoginNode
from .slurm import Slurm

pytestmark = pytest.mark.endurance  # a relay must start behind SSH

FEDERATION = """
name: seen
sites: [{{ name: home, nucleus: true }}, {{ name: cluster }}]
storages:
  - {{ name: home-disk, site: home, url: "file://{place}/disk" }}
  - {{ name: sftp-disk, site: cluster, url: "sftp://cluster{place}/cluster", options: {{ {keys} }} }}
  - {{ name: root-disk, site: cluster, url: "{root}" }}
queues:
  - name: home-queue
    site: home
    storage: home-disk
    computing_element: {{ kind: process, options: {{ directory: "{place}/work" }} }}
  - name: slurm-queue
    site: cluster
    storage: sftp-disk
    computing_element:
      kind: slurm
      options: {{ {ssh}, spool: "{place}/spool", tunnel: true, relay_host: 127.0.0.1, partition: main }}
  - name: plain-queue
    site: cluster
    storage: root-disk
    computing_element: {{ kind: ssh, options: {{ {ssh}, spool: "{place}/plain" }} }}
brokerage: {{ storage_min_free: 0 }}
loops: {{ period: 0.5 }}
"""

TASK = """
name: imagined
command: [sleep, "1"]
ram: 100
walltime: 60
scouts: 0
"""
FOLDERS = ("disk", "cluster", "root", "work", "spool", "plain")


@pytest.fixture
def house(login: LoginNode, tmp_path: Path, free_port: int) -> Iterator[House]:
    """A server of all these, after its first job; XRootD where it is installed."""
    with ExitStack() as stack:
        for folder in FOLDERS:
            (tmp_path / folder).mkdir()
        root = f"file://{tmp_path}/root"
        if shutil.which("xrootd"):
            root = stack.enter_context(xrootd(tmp_path / "root", tmp_path / "xrootd")).url
        keys = f"ssh_config: {login.place}/config, known_hosts: {login.place}/known_hosts"
        ssh = f"ssh: cluster, ssh_config: {login.place}/config"
        text = FEDERATION.format(place=tmp_path, keys=keys, ssh=ssh, root=root)
        house = stack.enter_context(running(tmp_path, free_port, text))
        wait_for(lambda: [*tmp_path.glob("spool/*/relay.url")], "its relay listens")
        yield house


def seen(place: Path, slurm: Slurm) -> dict[str, object]:
    """All files but logs, with their content, the jobs of the batch system, and the relays."""
    files = {
        str(path): path.read_bytes()
        for folder in FOLDERS
        for path in (place / folder).rglob("*")
        if path.is_file() and path.suffix != ".log"
    }
    processes = psutil.process_iter(["cmdline"])
    relays = [one.pid for one in processes if f"--address={place}" in " ".join(one.info["cmdline"] or ())]
    return {**files, "jobs": slurm.call("squeue", "-h", "-o", "%i %j"), "relays": sorted(relays)}


def test_doctor_plan_and_other_homes_change_nothing(house: House, slurm: Slurm, tmp_path: Path) -> None:
    before = seen(tmp_path, slurm)
    assert before["relays"]
    (tmp_path / "other").mkdir()
    (tmp_path / "task.yaml").write_text(TASK)
    for home in (house.home, tmp_path / "other"):
        own = {"PILOTAGE_HOME": str(home), "PILOTAGE_TOKEN": (house.home / "token").read_text().strip()}
        for words in (
            ("doctor",),
            ("stuck",),
            ("queues",),
            ("plan", "broker", "--task", f"{tmp_path}/task.yaml"),
        ):
            told = house.command(*words, **own)
            assert "Traceback" not in told, told
            assert "report it as a bug" not in told, told
        assert seen(tmp_path, slurm) == before
