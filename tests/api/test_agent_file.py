"""The agent's one file, fetched from a real server and started against it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from pilotage import server
from pilotage.model.states import JobState

from .conftest import ALICE, House, Submit


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


def test_a_pilot_started_from_the_file_does_a_job(house: House, submit: Submit, tmp_path: Path) -> None:
    command = ["sh", "-c", "cat word > out.txt"]
    (job,) = house.activate(submit(command=command, payload_files={"word": "hello"}, outputs=["out.txt"]))
    number, _ = house.pilot()
    pilot = house.as_("enrolment", ALICE, number)
    fetched = pilot.get("/pilot/agent.pyz")
    assert fetched.status_code == 200
    (tmp_path / "agent.pyz").write_bytes(fetched.content)
    token = tmp_path / "token"
    token.write_text(pilot.headers["Authorization"].removeprefix("Bearer "))
    options = ["--directory", "jobs", "--walltime", "4000", "--token-file", "token", "--remove-token-file"]
    with serving(house) as url:
        agent = subprocess.Popen(
            [sys.executable, "-I", "agent.pyz", "--url", url, *options],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        while house.job(job).state not in (JobState.HOLDING, JobState.FAILED) and agent.poll() is None:
            threading.Event().wait(0.05)
        agent.terminate()
        _, said = agent.communicate()
    assert (house.job(job).state, house.job(job).error) == (JobState.HOLDING, ""), said.decode()
    assert agent.returncode == 0
    assert not token.exists()
    assert [one.state for one in house.store.queries.pilots(None, None, 10)] == ["finished"]


def test_any_token_fetches_it_and_none_does_not(house: House) -> None:
    assert house.client().get("/pilot/agent.pyz").status_code == 401
