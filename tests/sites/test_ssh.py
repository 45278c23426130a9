"""Slurm behind a real login node: one connection, jump hosts, cuts, and the tunnel that leads back."""

import shutil
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from pilotage.adapters.computing.batch.hosts import Hosts
from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.loader import SharedLoader
from pilotage.adapters.computing.slurm import Slurm as SlurmElement
from pilotage.agent import relay
from pilotage.model.records.federation import ComputingElement, Queue
from pilotage.ports.computing import ListMatching, PilotSize
from pilotage.server.doctor.installation import Installation
from pilotage.server.doctor.places import BatchEntrance, batch_system
from pilotage.settings import Settings
from tests.agent.fake_pilot_server import FakeServer
from tests.waiting import wait_for

from .login import LoginNode
from .slurm import Slurm
from .test_slurm import orders, running, submitted


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(idle=600).serving() as fake:
        yield fake


@pytest.fixture
def options(tmp_path: Path, login: LoginNode) -> dict[str, Any]:
    return {"spool": str(tmp_path / "spool"), **login.options}


def test_it_keeps_the_contract_over_ssh(options: dict[str, Any], server: FakeServer) -> None:
    assert violations(SlurmElement, options, orders(server, 3)) == []
    assert violations(SlurmElement, {**options, "ssh": "jumped"}, orders(server, 2)) == []


def test_a_host_that_is_not_known_is_refused(options: dict[str, Any], server: FakeServer) -> None:
    with pytest.raises(OSError, match="host key is not in known_hosts: `ssh stranger` once, and check it"):
        SlurmElement({**options, "ssh": "stranger"}).submit(orders(server, 1))


def test_a_dead_login_node_is_left_alone_and_used_again(
    options: dict[str, Any], server: FakeServer, login: LoginNode
) -> None:
    element = SlurmElement(options)
    (reference,) = submitted(element, orders(server, 1))
    login.kill()
    wait_for(lambda: "cluster cannot be reached" in _fault(element, reference), "it is missed")
    login.start()
    wait_for(lambda: _answers(element, reference), "it is used again")


def _fault(element: SlurmElement, reference: str) -> str:
    try:
        element.poll([reference])
    except OSError as error:
        return str(error)
    return ""


def _answers(element: SlurmElement, reference: str) -> bool:
    try:
        return element.poll([reference])[reference].state in ("waiting", "running")
    except OSError:
        time.sleep(0.2)
        return False


def test_many_calls_share_one_connection_and_few_channels(
    options: dict[str, Any], server: FakeServer, login: LoginNode
) -> None:
    """Thirty threads at once: a server of OpenSSH's own limits refuses more than ten sessions."""
    hosts, faults = Hosts(), []

    def ask() -> None:
        element = SlurmElement(options)
        element.share(hosts)
        try:
            assert element.capacity().slots == 16
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=ask) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert (login.place / "log").read_text().count("Accepted publickey") == 1


@pytest.mark.parametrize("done", [True, False])
def test_a_connection_cut_in_mid_submission_submits_no_pilot_twice(
    options: dict[str, Any],
    server: FakeServer,
    login: LoginNode,
    slurm: Slurm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    done: bool,
) -> None:
    """The command goes on over there, or was not reached."""
    monkeypatch.setattr("pilotage.adapters.computing.batch.system.SUBMIT_LIMIT", 60 if done else 10)
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("sbatch", "squeue"):
        (commands / name).symlink_to(str(shutil.which(name)))
    late = f'touch {tmp_path}/begun; sleep 1; {shutil.which("sbatch")} "$@"; sleep 300'
    lost = f"touch {tmp_path}/begun; exec sleep 300"
    (commands / "sbatch").unlink()
    first = f"if mkdir {tmp_path}/first 2>/dev/null; then {late if done else lost}; fi"
    (commands / "sbatch").write_text(f'#!/bin/sh\n{first}\nexec {shutil.which("sbatch")} "$@"\n')
    (commands / "sbatch").chmod(0o755)
    element = SlurmElement({**options, "commands": str(commands)})

    def cut() -> None:
        wait_for((tmp_path / "begun").exists, "it is submitted")
        login.cut()

    thread = threading.Thread(target=cut)
    thread.start()
    references = submitted(element, orders(server, 2))
    thread.join()
    assert len(slurm.call("squeue", "--me", "-r", "-h").splitlines()) == 2
    wait_for(lambda: running(element, *references), "they run")


def test_pilots_call_home_through_the_tunnel_also_after_it_was_cut(
    options: dict[str, Any], server: FakeServer, login: LoginNode, tmp_path: Path
) -> None:
    hosts = Hosts(server.url)
    element = SlurmElement({**options, "tunnel": True, "relay_host": "127.0.0.1"})
    element.share(hosts)
    references = submitted(element, orders(server, 2))
    wait_for(lambda: len(server.matches) >= 2, "both ask for work")
    (spool,) = (tmp_path / "spool").iterdir()
    address, identity = (spool / "relay.url").read_text().strip(), spool / "relay.pem"
    assert identity.stat().st_mode & 0o077 == 0
    _refused(address)
    assert "Errno" not in _asked(address, identity), "who has the identity is passed on"
    login.cut()
    calls = len(server.calls)
    wait_for(lambda: (spool / "relay.url").read_text().strip() != address, "another relay listens")
    wait_for(lambda: len(server.calls) > calls + 4, "pilots call again")
    assert running(element, *references)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=60)


def test_pilots_find_the_relay_of_their_server_whatever_happens_to_it(
    options: dict[str, Any],
    server: FakeServer,
    login: LoginNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another wrote over its address and ended, the file vanished, or the relay itself was killed."""
    monkeypatch.setattr("pilotage.adapters.computing.batch.tunnel.LOOK", 0.3)
    tunnel = {**options, "tunnel": True, "relay_host": "127.0.0.1"}
    element = SlurmElement(tunnel)
    element.share(Hosts(server.url))
    submitted(element, orders(server, 1))
    (spool,) = (tmp_path / "spool").iterdir()
    sign, identity = spool / "relay.url", spool / "relay.pem"
    address = sign.read_text()
    sign.write_text("https://127.0.0.1:9\n")
    wait_for(lambda: sign.read_text() == address, "it names the relay that answers")
    sign.unlink()
    wait_for(sign.exists, "it is written again")
    for process in psutil.process_iter(["cmdline"]):
        if f"--address={sign}" in (process.info["cmdline"] or ()):
            process.kill()
    wait_for(lambda: sign.read_text() != address, "another relay listens")
    assert "Errno" not in _asked(sign.read_text().strip(), identity)


@pytest.mark.parametrize("tunnel", [True, False])
def test_whoever_looks_changes_nothing_at_the_site(
    options: dict[str, Any], server: FakeServer, login: LoginNode, tmp_path: Path, tunnel: bool
) -> None:
    """As the doctor does, while a server has pilots there."""
    chosen = {**options, "tunnel": tunnel, "relay_host": "127.0.0.1"}
    element = SlurmElement(chosen)
    element.share(Hosts(server.url))
    (reference,) = submitted(element, orders(server, 1))
    wait_for(lambda: bool(server.matches), "it asks for work")
    before = _content(tmp_path / "spool")
    declared = ComputingElement(kind="slurm", options=chosen)
    queue = Queue(name="far", site="far", storage="disk", computing_element=declared)
    known = Installation(known_settings=replace(Settings.read(), url=server.url))
    assert list(batch_system(known, BatchEntrance(queue, ""))) == []
    looking = SharedLoader()(declared)
    assert looking.poll([reference, "never"])[reference].state == "running"
    assert isinstance(looking, ListMatching)
    looking.resources(PilotSize(cores=1, memory=100, walltime=600))
    assert _content(tmp_path / "spool") == before


def test_a_server_of_another_home_finds_the_pilots_of_a_silent_one_by_name(
    options: dict[str, Any],
    server: FakeServer,
    login: LoginNode,
    slurm: Slurm,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its answer never came to the store, so the other submits the same orders."""
    todo = orders(server, 3)
    first = submitted(SlurmElement(options), todo)
    monkeypatch.setattr("pilotage.adapters.computing.batch.spool.name_of", lambda _: "another")
    assert submitted(SlurmElement(options), todo[1:]) == first[1:]
    assert len(slurm.call("squeue", "--me", "-r", "-h").splitlines()) == 3


def _content(folder: Path) -> dict[Path, bytes]:
    """Return all files but logs, which the pilot writes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".log"}


def _refused(address: str) -> None:
    """Who has not got the identity gets no answer, encrypted or not."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for url, way in ((address, context), (address.replace("https", "http"), None)):
        with pytest.raises(OSError):  # noqa: PT011 -- which, depends on the versions of TLS
            urllib.request.urlopen(f"{url}/api/v1/pilot/payload/1", timeout=60, context=way)


def _asked(address: str, identity: Path) -> str:
    try:
        request = urllib.request.Request(
            f"{address}/api/v1/pilot/payload/7", headers={"Authorization": "none"}
        )
        with relay.opener(str(identity)).open(request, timeout=60) as answer:
            return str(answer.read())
    except OSError as error:
        return str(error)
