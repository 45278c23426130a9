"""The example for joblib, as it is."""

import subprocess
import sys

from server import ROOT, LocalServer

from pilotage.client import Client


def test_joblib_runs_calls_as_jobs(server: LocalServer, client: Client) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/client/joblib_backend.py", "20"],
        env=server.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == str(sum(3.14159 * radius**2 for radius in range(20))), done.stderr
    tasks = [task for task in client.tasks(limit=5) if task.name == "function"]
    assert sum(client.task(task.id).counts["finished"] for task in tasks) == 20
