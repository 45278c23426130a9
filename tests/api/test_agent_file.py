"""The agent's one file, fetched from a real server and started against it."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from pilotage.model.records.states import JobState
from pilotage.server import process as server
from tests.waiting import PATIENCE, wait_for

from .conftest import ALICE, House, Submit

ENDS = (JobState.HOLDING, JobState.FINISHED)


@contextmanager
def serving(house: House) -> Iterator[str]:
    """The application at a port; yields its URL."""
    listener = server.listen("127.0.0.1", 0)
    running = uvicorn.Server(uvicorn.Config(house.app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join()
        listener.close()


@pytest.mark.slow
def test_a_pilot_started_from_the_file_does_a_job(house: House, submit: Submit, tmp_path: Path) -> None:
    command = ["sh", "-c", "cat word > out.txt"]
    (job,) = house.activate(submit(command=command, payload_files={"word": "hello"}, outputs=["out.txt"]))
    number, _ = house.pilot()
    pilot = house.as_("enrolment", ALICE, number)
    fetched = pilot.get("/pilot/agent.pyz")
    assert fetched.status_code == 200
    (tmp_path / "agent.pyz").write_bytes(fetched.content)
    token = pilot.headers["Authorization"].removeprefix("Bearer ")
    with serving(house) as url:
        agent = _agent(tmp_path, url, token, "node")
        _until(lambda: house.job(job).state in (JobState.HOLDING, JobState.FAILED), agent)
        agent.terminate()
        _, said = agent.communicate()
    assert (house.job(job).state, house.job(job).error) == (JobState.HOLDING, ""), said.decode()
    assert agent.returncode == 0
    assert not (tmp_path / "node/token").exists()
    assert [one.state for one in house.store.queries.pilots(None, None, 10)] == ["finished"]


@pytest.mark.slow
def test_a_second_agent_with_the_same_token_gives_up_and_the_first_goes_on(
    house: House, submit: Submit, tmp_path: Path
) -> None:
    (job,) = house.activate(submit(command=["sleep", "2"]))
    number, _ = house.pilot()
    pilot = house.as_("enrolment", ALICE, number)
    (tmp_path / "agent.pyz").write_bytes(pilot.get("/pilot/agent.pyz").content)
    token = pilot.headers["Authorization"].removeprefix("Bearer ")
    with serving(house) as url:
        first = _agent(tmp_path, url, token, "first")
        _until(lambda: house.job(job).state in (JobState.RUNNING, *ENDS), first)
        second = _agent(tmp_path, url, token, "second")
        _, said = second.communicate(timeout=PATIENCE)
        assert second.returncode == 1
        assert "has enrolled already" in said.decode()
        _until(lambda: house.job(job).state in ENDS, first)
        assert house.job(job).attempt == 1
        first.terminate()
        first.communicate()


def _agent(place: Path, url: str, token: str, name: str) -> "subprocess.Popen[bytes]":
    (place / name).mkdir()
    (place / name / "token").write_text(token)
    options = ["--directory", "jobs", "--walltime", "4000", "--token-file", "token", "--remove-token-file"]
    return subprocess.Popen(
        [sys.executable, "-I", str(place / "agent.pyz"), "--url", url, *options],
        cwd=place / name,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def _until(holds: Callable[[], bool], agent: "subprocess.Popen[bytes]") -> None:
    wait_for(lambda: holds() or agent.poll() is not None, "the news of the agent's job")
    assert holds(), agent.communicate()


def test_any_token_fetches_it_and_none_does_not(house: House) -> None:
    assert house.client().get("/pilot/agent.pyz").status_code == 401
