"""Whoever only looks changes nothing at a site, whatever kind its computing element is.

Each adapter submits a pilot to a stand-in for its site, which keeps what it was asked for. Then the doctor, a
plan and a second server of another home look. A new kind fails here until its site is among ``SITES``.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from pilotage.adapters.computing.batch import hosts
from pilotage.adapters.computing.batch.commands import LocalRunner
from pilotage.adapters.computing.forwarding.element import ForwardingElement
from pilotage.adapters.computing.htcondor import element as htcondor
from pilotage.adapters.computing.loader import SharedLoader, installed
from pilotage.adapters.computing.process import Process
from pilotage.model.records.federation import ComputingElement, Queue
from pilotage.ports.computing import (
    ComputingElementPort,
    Forwarding,
    LeadingBack,
    ListMatching,
    PilotOrder,
    PilotSize,
)
from pilotage.server.doctor.installation import Installation
from pilotage.server.doctor.places import BatchEntrance, batch_system

from .fake_htcondor import Queue as Schedd
from .kubernetes_api import Api, kubeconfig
from .stand_in_commands import commands, lines
from .test_arc import CREATED, Answers
from .test_slurm_profile import row
from .test_slurmrest import Service
from .web_server import Request, WebServer

NAME = "demo-pilot-1"
ORDER = PilotOrder(pilot=1, name=NAME, token="t" * 20, server_url="http://127.0.0.1:1", walltime=3600)
SIZE = PilotSize(cores=1, memory=1000, walltime=3600)
STRANGE = ("nobody's", "7/demo-pilot-9")
NOTED = 'echo "$(basename "$0") $*" >>"$S/asked"'
SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


@dataclass(frozen=True)
class Site:
    """The options that lead to a site, what it was asked for in order, and which of that only reads."""

    options: Mapping[str, Any]
    asked: Callable[[], list[str]] = list
    reads: str = ""


Opened = Callable[[Path, pytest.MonkeyPatch], AbstractContextManager[Site]]


def by_commands(reads: str, **scripts: str) -> Opened:
    """A batch system whose commands answer with these scripts."""

    @contextmanager
    def opened(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
        folder = commands(place / "bin", {name: f"{NOTED}\n{script}" for name, script in scripts.items()})
        options = {"commands": folder, "spool": str(place / "spool")}
        yield Site(options, lambda: lines(place / "bin", "asked"), reads)

    return opened


def over_web(respond: Callable[[Request], tuple[int, bytes] | None], reads: str, **options: str) -> Opened:
    """A service that answers requests. ``{url}`` and ``{place}`` of options are its address and a folder."""

    @contextmanager
    def opened(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
        (place / "token").write_text("secret")
        with WebServer(respond).serving() as server:
            kubeconfig(place / "kubeconfig", server.url)
            given = {name: text.format(url=server.url, place=place) for name, text in options.items()}
            yield Site(given, lambda: [f"{one.method} {one.path}" for one in server.requests], reads)

    return opened


class Here(LocalRunner):
    """Runs the commands for a login node on this machine."""

    def __init__(self, *_: object) -> None:
        pass

    def closed_for(self) -> float:
        return 0.0


@contextmanager
def plain_machine(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A machine behind SSH where pilots sleep."""
    monkeypatch.setattr(hosts, "SshRunner", Here)
    setsid = f'{NOTED}\nexec /usr/bin/setsid "$@"'
    python = '[ "$1" = -c ] || exec sleep 600'
    folder = commands(place / "bin", {"setsid": setsid, "python": python})
    options = {"ssh": "cluster", "commands": folder, "python": f"{folder}/python"}
    options |= {"spool": str(place / "spool"), "directory": str(place / "work")}
    yield Site(options, lambda: lines(place / "bin", "asked"))


@contextmanager
def this_machine(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Processes that sleep."""
    monkeypatch.setattr(Process, "command", lambda *_: SLEEPS)
    yield Site({"directory": str(place / "pilots")})


@contextmanager
def another_pilotage(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server without tasks, and forwarders that sleep."""
    monkeypatch.setattr(ForwardingElement, "command", lambda *_: SLEEPS)
    options = {
        "url": "{url}",
        "token_file": "{place}/token",
        "storage": "disk",
        "directory": "{place}/pilots",
    }
    with over_web(lambda _: (200, b'{"tasks": []}'), "GET .*", **options)(place, monkeypatch) as site:
        yield site


@contextmanager
def condor(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A schedd in memory."""
    schedd = Schedd()
    monkeypatch.setattr(htcondor, "ProcessClient", lambda *_: schedd)
    yield Site(
        {"directory": str(place / "files")},
        lambda: [str(request["call"]) for request in schedd.requests],
        "query|slots",
    )


def arc_answers() -> Answers:
    """An ARC with one job."""
    answers, jobs = Answers(), "/arex/rest/1.0/jobs"
    states = [{**CREATED, "status-code": "200", "state": "RUNNING"}]
    answers.set = {
        f"POST {jobs}?action=new": {"job": CREATED},
        f"POST {jobs}?action=status": {"job": states},
        f"GET {jobs}?": {"job": []},
    }
    return answers


class Cluster(Service):
    """A slurmrestd with one partition."""

    def __call__(self, asked: Request) -> tuple[int, bytes] | None:
        if asked.path.endswith("/partitions"):
            partition = {"name": "main", "flags": ["default"], "total_cpus": 4}
            return 200, json.dumps({"partitions": [partition]}).encode()
        return super().__call__(asked)


QSTAT = json.dumps({"Jobs": {"7.srv": {"Job_Name": NAME, "job_state": "R", "queue": "q"}}})
SQUEUE = row("7", "RUNNING", "0:0", "None", NAME)
SGE = (
    "<job_info><job_list><JB_job_number>7</JB_job_number>"
    f"<JB_name>{NAME}</JB_name><state>r</state></job_list></job_info>"
)
SITES: Mapping[str, Opened] = {
    "arc": over_web(
        arc_answers(),
        r"GET .*|POST .*\?action=(status|info)",
        endpoint="{url}/arex",
        token_file="{place}/token",
    ),
    "gridengine": by_commands(
        "(qstat|qacct) .*", qsub="cat >/dev/null; echo 7", qstat=f"echo '{SGE}'", qacct="", qdel=""
    ),
    "htcondor": condor,
    "kubernetes": over_web(Api(), "GET .*", kubeconfig="{place}/kubeconfig", image="python:3.12"),
    "lsf": by_commands(
        "bjobs .*",
        bsub="cat >/dev/null; echo 'Job <7> is submitted to queue <normal>.'",
        bjobs=f"echo '7|0|RUN|-|normal|{NAME}|-|-'",
        bkill="",
    ),
    "pbs": by_commands(
        "(qstat|qselect) .*",
        qsub="cat >/dev/null; echo 7.srv",
        qstat=f"echo '{QSTAT}'",
        qselect="echo 7.srv",
        qdel="",
    ),
    "pilotage": another_pilotage,
    "process": this_machine,
    "slurm": by_commands(
        "(squeue|sinfo|sacct|scontrol show) .*",
        sbatch="cat >/dev/null; echo 7",
        squeue=f"case $* in *%T*) echo RUNNING ;; *) echo '{SQUEUE}' ;; esac",
        sinfo="case $* in *%C*) echo 'main*|1/3/0/4' ;; *) echo 'main*' ;; esac",
        sacct="",
        scontrol="",
        scancel="",
    ),
    "slurmrest": over_web(Cluster(), "GET .*", endpoint="{url}", user="me", token_file="{place}/token"),
    "ssh": plain_machine,
}


def files(place: Path) -> dict[str, object]:
    """Everything below a folder but what the stand-ins note: the time of a folder's last change, too."""
    found = {path: path.lstat() for path in place.rglob("*") if path.parent.name != "state"}
    return {str(path): (one.st_mtime_ns, one.st_size, one.st_mode) for path, one in found.items()}


def look(element: ComputingElementPort, reference: str) -> None:
    """Ask an adapter whatever a plan, a server or ``explain`` asks of it."""
    element.capacity()
    element.poll([reference, *STRANGE])
    if isinstance(element, ListMatching):
        element.resources(SIZE)
    if isinstance(element, Forwarding):
        element.explained("demo-1.1")
    if isinstance(element, LeadingBack):
        element.closed_for()


@pytest.mark.parametrize("kind", sorted(installed()))
def test_whoever_looks_submits_nothing_ends_nothing_and_writes_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "site"
    place.mkdir()
    with SITES[kind](place, monkeypatch) as site:
        element = ComputingElement(kind=kind, options=dict(site.options))
        unused = files(place)
        own = SharedLoader("http://127.0.0.1:1")(element)
        (answer,) = own.submit([ORDER])
        assert answer.reference, answer.error
        try:
            before, asked = files(place), site.asked()
            noticed = [line for line in asked if not re.fullmatch(site.reads, line)]
            assert noticed or before != unused, "a submission would not be seen here"
            state = own.poll([answer.reference])[answer.reference].state
            assert state in ("waiting", "running")
            asked = site.asked()
            with monkeypatch.context() as elsewhere:
                elsewhere.setenv("PILOTAGE_HOME", str(tmp_path / "another home"))
                queue = Queue(name="q", site="s", storage="d", computing_element=element)
                found = batch_system(cast(Installation, None), BatchEntrance(queue, ""))
                assert [one.what for one in found] == []
                for url in ("", "http://127.0.0.1:2"):
                    look(SharedLoader(url)(element), answer.reference)
            wrote = [line for line in site.asked()[len(asked) :] if not re.fullmatch(site.reads, line)]
            assert (wrote, files(place)) == ([], before)
            assert SharedLoader()(element).poll([answer.reference])[answer.reference].state == state
        finally:
            own.cancel([answer.reference])
