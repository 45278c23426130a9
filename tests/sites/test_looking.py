"""Whoever only looks changes nothing at a site, whatever its computing elements and storages are."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.acceptance.house import House, running
from tests.conftest import locked_port
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
        wait_for(lambda: relays(tmp_path) == 1, "its relay listens")
        yield house


def relays(place: Path) -> int:
    """How many servers' relays listen in the spool."""
    return len([*place.glob("spool/*/relay.url")])


def seen(place: Path, slurm: Slurm) -> dict[str, object]:
    """All files but logs, with their content, the jobs of the batch system, and the relays."""
    files = {
        str(path): path.read_bytes()
        for folder in FOLDERS
        for path in (place / folder).rglob("*")
        if path.is_file() and path.suffix != ".log"
    }
    commands = ((one.pid, " ".join(one.info["cmdline"] or ())) for one in psutil.process_iter(["cmdline"]))
    processes = {f"relay {pid}": command for pid, command in commands if f"--address={place}" in command}
    jobs = {f"job {line}": "" for line in slurm.call("squeue", "-h", "-o", "%i %j").splitlines()}
    return {**files, **processes, **jobs}


def test_doctor_plan_and_other_homes_change_nothing(house: House, slurm: Slurm, tmp_path: Path) -> None:
    before = seen(tmp_path, slurm)
    assert [name for name in before if name.startswith("relay ")]
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


def test_a_second_server_and_a_test_of_a_queue_add_their_own_and_change_nothing(
    house: House, slurm: Slurm, tmp_path: Path
) -> None:
    before = seen(tmp_path, slurm)
    (tmp_path / "second").mkdir()
    with locked_port() as port, running(tmp_path / "second", port, house.federation.read_text()):
        wait_for(lambda: relays(tmp_path) == 2, "the second server has a relay of its own")
        told = house.command("queues", "test", "slurm-queue")
        assert "called from" in told, told
        after = seen(tmp_path, slurm)
    assert {name: after.get(name) for name in before} == before
    assert len([name for name in after if name.startswith("job ") and name not in before]) == 1
