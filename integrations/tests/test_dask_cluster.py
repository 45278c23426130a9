"""Dask's workers as jobs on a real server: scaling, losses, refusals, and the end."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask_pilotage.task
import pytest
from dask_jobqueue.tests import test_pbs as of_jobqueue
from dask_pilotage import PilotageCluster
from distributed import Client as DaskClient
from distributed.security import Security
from server import LocalServer, wait_for

from pilotage.client import Client, Refused

# The fixture of the server is there for its variables.
# ruff: noqa: ARG001

USUAL: dict[str, Any] = {
    "memory": "500 MB",
    "conda": sys.prefix,
    "host": "127.0.0.1",
    "dashboard_address": None,
    "nanny": False,
}

PROGRAM = """\
import sys, time
from dask_pilotage import PilotageCluster

cluster = PilotageCluster(2, conda=sys.prefix, memory="500 MB", host="127.0.0.1", dashboard_address=None)
print("begun", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What Pilotage writes into Dask's log."""
    logger = logging.getLogger("distributed.pilotage")
    logger.addHandler(caplog.handler)
    with caplog.at_level(logging.INFO, "distributed.pilotage"):
        yield caplog
    logger.removeHandler(caplog.handler)


def names(cluster: PilotageCluster) -> set[str]:
    """Return the names of the workers that have joined."""
    return {worker.name for worker in cluster.scheduler.workers.values()}


def live(client: Client) -> int:
    """Return how many jobs of workers have not ended."""
    tasks = [task for task in client.tasks(limit=50) if "dask" in task.get("labels", {})]
    return sum(not job.has_ended for task in tasks for job in client.jobs(task))


def test_workers_come_go_and_are_replaced(
    server: LocalServer, client: Client, logs: pytest.LogCaptureFixture
) -> None:
    with PilotageCluster(2, **USUAL) as cluster, DaskClient(cluster) as dask:
        wait_for(lambda: len(names(cluster)) == 2, "both workers have joined")
        assert dask.submit(sum, range(10)).result() == 45
        (line,) = {message for message in logs.messages if "Pilotage runs 2 workers as task " in message}
        task = client.task(int(line.rpartition("/")[2]))
        assert line.endswith(f"{client.url}/tasks/{task.id}")
        # One is lost.
        first = names(cluster)
        client.cancel(f"job:{task.jobs()[0].id}")
        wait_for(lambda: len(names(cluster) - first) == 1, "another has joined")
        assert "is lost, another follows: job" in logs.text
        # The server is away when another is wanted.
        server.stop(signal.SIGKILL)
        cluster.scale(3)
        wait_for(lambda: "Jobs go on; Dask asks again." in logs.text, "the log has why")
        server.start()
        wait_for(lambda: len(names(cluster)) == 3, "the third has joined")
        cluster.adapt(minimum=0, maximum=1, interval="200ms", wait_count=2)
        wait_for(lambda: live(client) == 0, "all have left")
        assert dask.submit(pow, 2, 3).result(timeout=120) == 8
    wait_for(lambda: live(client) == 0, "all jobs have ended")


def test_what_no_queue_can_run_is_refused_with_the_cheapest_change(server: LocalServer) -> None:
    with pytest.raises(Refused, match=r"cheapest change: memory, you: ask for ram: 4000"):
        PilotageCluster(1, **{**USUAL, "memory": "900 GB"})
    with pytest.raises(Refused, match="no queue is at nowhere"):
        PilotageCluster(1, **USUAL, site="nowhere")
    with pytest.raises(ValueError, match="does not begin with http://"):
        PilotageCluster(1, **USUAL, url="nonsense")


def test_nodes_that_do_not_reach_the_scheduler_are_named(
    server: LocalServer, logs: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_pilotage.task, "LONELY", 1)
    with PilotageCluster(3, **USUAL, contact_address="tcp://127.0.0.1:9"):
        wait_for(lambda: "Nodes must reach the scheduler at tcp://127.0.0.1:9" in logs.text, "the log has it")
    assert logs.text.count("ended before it reached the scheduler: job") >= 3


def test_workers_get_keys_for_tls_as_secrets(client: Client, logs: pytest.LogCaptureFixture) -> None:
    with PilotageCluster(1, **USUAL, security=Security.temporary()) as cluster:
        wait_for(lambda: len(names(cluster)) == 1, "the worker has joined")
        assert cluster.scheduler.address.startswith("tls://")
        kept = [secret["name"] for secret in client.secrets() if secret["name"].startswith("dask-")]
        assert len(kept) == 3
        (task,) = client.tasks(limit=1)
        assert "PRIVATE KEY" not in f"{client.task(task.id).to_dict()}{logs.text}"
    assert not [secret for secret in client.secrets() if secret["name"] in kept]


def test_an_interruption_cancels_the_jobs(server: LocalServer, client: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=server.environment, stdout=file, stderr=file
        )
    try:
        wait_for(lambda: "begun" in log.read_text(), "the cluster runs")
        program.send_signal(signal.SIGINT)
        assert program.wait(60) != 0
    finally:
        program.kill()
    wait_for(lambda: live(client) == 0, "all jobs have ended")


@pytest.mark.parametrize(
    "name",
    [
        "test_basic",
        "test_scale_cores_memory",
        "test_basic_scale_edge_cases",
        "test_adaptive",
        "test_adaptive_grouped",
        "test_adaptive_cores_mem",
    ],
)
def test_tests_of_dask_jobqueue(name: str, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tests that need a batch system: they are written for PBS."""

    def cluster(walltime: str, cores: int, memory: str, loop: Any, **options: Any) -> PilotageCluster:
        assert (walltime, options["processes"]) == ("00:02:00", 1)
        # Its workers use little: they fit into the pilots that other tests have left.
        usual = {**USUAL, "memory": memory, "fields": {"cores": 1, "ram": 500}}
        cluster = PilotageCluster(walltime=120, cores=cores, loop=loop, **usual)
        cluster._dummy_job = SimpleNamespace(worker_processes=1)
        return cluster

    monkeypatch.setattr(of_jobqueue, "PBSCluster", cluster)
    monkeypatch.setattr(of_jobqueue, "QUEUE_WAIT", 120)
    getattr(of_jobqueue, name)(None)


def test_dask_starts_with_it_in_less_than_300_ms() -> None:
    code = (
        "import distributed, time, sys; begun = time.process_time();"
        "from dask_pilotage import PilotageCluster; seconds = time.process_time() - begun;"
        "assert seconds < 0.3, seconds; assert not {'httpx', 'pilotage.client'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
