"""The client on a real server with a real site: tasks, functions, an executor, and the examples."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import Executor
from pathlib import Path

import pytest

from pilotage.client import AsyncClient, CallFailed, Client, Refused
from pilotage.settings import Settings

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "client"


def test_a_task_runs_and_its_outputs_come_here(live: Client, tmp_path: Path) -> None:
    task = live.submit(name="hello", command=["sh", "-c", "echo hello > hello.txt"], outputs=["hello.txt"])
    assert task.wait(120).check().state == "finished"
    assert task.fetch(tmp_path).files[0].place.path.read_text() == "hello\n"
    assert task.jobs()[0].explain()["lines"]


def test_two_clients_with_one_key_get_one_task(live: Client, site: Settings) -> None:
    with Client(settings=site) as other:
        tasks = [one.submit(name="once", command=["true"], key="the same") for one in (live, other)]
    assert tasks[0].id == tasks[1].id
    tasks[0].cancel()


def test_a_command_runs_over_parameters_and_its_jobs_come_as_they_end(live: Client) -> None:
    task = live.map(["test", "{value}", "!=", "2"], [1, 2, 3], max_attempts=1)
    ended = {job.index: job.state for job in task.as_completed(120)}
    assert ended == {0: "finished", 1: "failed", 2: "finished"}
    assert (task.state, task.counts) == ("failed", {"finished": 2, "failed": 1})


def test_a_function_runs_over_arguments_and_its_errors_come_back(live: Client) -> None:
    offset = 10

    def divided(number: int) -> float:
        return offset / number

    mapped = live.map(divided, [1, 2, 0])
    outcomes = {job.index: mapped.result(job) for job in mapped.as_completed(120) if job.index != 2}
    assert outcomes == {0: 10.0, 1: 5.0}
    with pytest.raises(ZeroDivisionError):
        mapped.results()


def test_the_asynchronous_client_does_the_same(site: Settings) -> None:
    async def run() -> list[object]:
        async with AsyncClient(settings=site) as client:
            mapped = await client.map(pow, {"base": [2, 3], "exp": [2]})
            return await mapped.results(120)

    assert asyncio.run(run()) == [4, 9]


def test_an_executor_runs_functions_as_jobs(live: Client) -> None:
    with live.executor() as executor:
        assert isinstance(executor, Executor)
        futures = [executor.submit(pow, 2, exponent) for exponent in range(3)]
        unsent = executor.submit(len, b"x" * 0)
        lost = executor.submit(os._exit, 3)
        assert [future.result(120) for future in futures] == [1, 2, 4]
        assert unsent.result(120) == 0
        with pytest.raises(CallFailed, match="exited with code 3"):
            lost.result(120)
        large = executor.submit(len, os.urandom(2_000_000))
        with pytest.raises(Refused, match="put large data on a storage"):
            large.result(10)
    with pytest.raises(RuntimeError):
        executor.submit(len, "")


@pytest.mark.endurance
def test_five_hundred_jobs_are_read_as_they_end(site: Settings) -> None:
    environment = {**os.environ, "PILOTAGE_HOME": str(site.home), "PILOTAGE_URL": site.url}
    done = subprocess.run(
        [sys.executable, EXAMPLES / "as_completed.py"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "500 jobs, sum of squares 41791750"


@pytest.mark.endurance
def test_the_notebook_runs(site: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PILOTAGE_HOME", str(site.home))
    monkeypatch.setenv("PILOTAGE_URL", site.url)
    notebook = nbformat.read(  # type: ignore[no-untyped-call]
        EXAMPLES / "first-steps.ipynb", as_version=4
    )
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("<table>" in one.get("data", {}).get("text/html", "") for one in shown)
