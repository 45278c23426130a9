"""Pilots through a real Slurm: submission next to ``sbatch`` in a loop, first call home, 1,000 slots."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import psutil
from tests.agent.fake_pilot_server import TOKEN, FakeServer
from tests.sites import slurm as beds

from pilotage.adapters.computing.slurm import Slurm
from pilotage.demo import service
from pilotage.ports.computing import PilotOrder

from . import lifecycle

SINGLE = 60
ARRAYS = 600
ROUNDS = 3
SLOTS, PILOT_SLOTS = 1000, 20
JOB_SECONDS = 30.0
FILL_LIMIT = 60.0
"""Seconds after which it is measured with as many slots as are filled."""

FEDERATION = """
name: bench
sites:
  - {{ name: cluster, nucleus: true }}
storages:
  - {{ name: disk, site: cluster, url: "file://{place}/disk", storage_min_free: 0 }}
queues:
  - name: main
    site: cluster
    storage: disk
    num_slots: 1000
    computing_element:
      kind: slurm
      max_pilots: {pilots}
      pilot_slots: {slots}
      pilot_walltime: 3600
      options: {{ spool: "{place}/spool", directory: "{place}", partition: main, python: "{python}" }}
director: {{ period: 1 }}
loops: {{ heartbeat: 10, pilot_idle: 60 }}
"""


def figures() -> dict[str, float]:
    """Rates of submission, and the seconds from submission to a pilot's first call and their parts."""
    if lacking := beds.lacking():
        print(f"slurm: not measured: {lacking}")
        return {}
    return _of_pilots() | _of_jobs()


def _of_pilots() -> dict[str, float]:
    with (
        beds.slurm() as bed,
        mock.patch.dict(os.environ, bed.environment),
        FakeServer(idle=600).serving() as server,
        tempfile.TemporaryDirectory() as spool,
    ):
        found = _first_call(bed, server, spool)
        bed.call("scontrol", "update", "PartitionName=main", "State=DOWN")
        found |= _rates(server, spool)
        bed.call("scancel", "--me")
        return found


def _of_jobs() -> dict[str, float]:
    """Jobs of half a minute on 1,000 slots of a Slurm: those that finish a minute, and what the server takes.

    The slots are pretended, 20 to a pilot: this machine has fewer processors, which pilots and server share.
    """
    with contextlib.ExitStack() as stack:
        bed = stack.enter_context(beds.slurm(slots=SLOTS))
        stack.enter_context(mock.patch.dict(os.environ, bed.environment))
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pilotage-bench-")))
        (place / "disk").mkdir()
        federation = place / "federation.yaml"
        values = {
            "place": place,
            "pilots": SLOTS // PILOT_SLOTS,
            "slots": PILOT_SLOTS,
            "python": sys.executable,
        }
        federation.write_text(FEDERATION.format(**values))
        with service.running(federation, place / "home", None) as server:
            task = {"jobs": 3 * SLOTS, "command": ["sleep", f"{JOB_SECONDS:g}"], "scouts": 0}
            server.post("/tasks", {"tasks": [{"name": "sleep", **task}]})
            begun = time.monotonic()
            while _running(server) < SLOTS * 0.95 and time.monotonic() - begun < FILL_LIMIT:
                time.sleep(0.5)
            filled = time.monotonic() - begun
            process = psutil.Process(server.pid)
            used, finished, begun = _processor(process), lifecycle.finished(server), time.monotonic()
            time.sleep(JOB_SECONDS)
            seconds = time.monotonic() - begun
            done = lifecycle.finished(server) - finished
            return {
                "slurm_1000_slots_filled_s": filled,
                "slurm_1000_slots_jobs_per_min": 60 * done / seconds,
                "slurm_1000_slots_server_cpu": (_processor(process) - used) / seconds,
            }


def _running(server: service.DemoServer) -> int:
    return lifecycle.counts(server)["running"]


def _processor(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _rates(server: FakeServer, spool: str) -> dict[str, float]:
    """Pilots or jobs a second, to a partition that starts none; the loop is that of a shell."""
    script = f"for n in $(seq {SINGLE}); do sbatch --parsable --output=/dev/null --wrap=true >/dev/null; done"
    single, arrays = Slurm({"spool": spool, "array": 1}), Slurm({"spool": spool})
    best: dict[str, float] = {}
    for round_ in range(ROUNDS):
        ways: Sequence[tuple[str, int, Callable[[], object]]] = (
            ("sbatch_loop", SINGLE, lambda: subprocess.run(["sh", "-c", script], check=True)),
            ("single", SINGLE, lambda at=round_: single.submit(_orders(server, SINGLE, f"s{at}"))),  # type: ignore[misc]
            ("arrays", ARRAYS, lambda at=round_: arrays.submit(_orders(server, ARRAYS, f"a{at}"))),  # type: ignore[misc]
        )
        for name, count, way in ways:
            begun = time.perf_counter()
            way()
            key = f"slurm_{name}_per_s"
            best[key] = max(best.get(key, 0), count / (time.perf_counter() - begun))
    return best


def _first_call(bed: beds.Slurm, server: FakeServer, spool: str) -> dict[str, float]:
    """One pilot on an idle Slurm: the adapter's part, Slurm's part, and the part of script and agent."""
    element, begun = Slurm({"spool": spool}), time.perf_counter()
    (answer,) = element.submit(_orders(server, 1, "first"))
    submitted = time.perf_counter()
    log = f"sh -c 'until ls {spool}/*/logs/first-pilot-1.log >/dev/null 2>&1; do sleep 0.01; done'"
    subprocess.run(log, shell=True, check=True)
    started = time.perf_counter()
    while not server.matches:
        time.sleep(0.005)
    called = time.perf_counter()
    element.cancel([answer.reference])
    bed.clear()
    return {
        "slurm_first_call_s": called - begun,
        "slurm_first_call_submission_s": submitted - begun,
        "slurm_first_call_in_slurm_s": started - submitted,
        "slurm_first_call_agent_s": called - started,
    }


def _orders(server: FakeServer, count: int, name: str) -> list[PilotOrder]:
    return [
        PilotOrder(pilot=n, name=f"{name}-pilot-{n}", token=TOKEN, server_url=server.url, walltime=3600)
        for n in range(1, count + 1)
    ]
