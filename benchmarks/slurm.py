"""Pilots through a real Slurm: single and as arrays, next to ``sbatch`` in a loop; the first call home."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from unittest import mock

from tests.agent.fake_pilot_server import TOKEN, FakeServer
from tests.sites import slurm as beds

from pilotage.computing.slurm import Slurm
from pilotage.ports.computing import PilotOrder

SINGLE = 60
ARRAYS = 600
ROUNDS = 3


def figures() -> dict[str, float]:
    """Rates of submission, and the seconds from submission to a pilot's first call and their parts."""
    if lacking := beds.lacking():
        print(f"slurm: not measured: {lacking}")
        return {}
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
