"""The server's machine loses its power: all that was answered is still there, and no job goes out twice."""

import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url

from pilotage.model.documents.decision import Create, Decision, Move
from pilotage.model.records.states import AT_A_PILOT, JobState, PilotState
from pilotage.model.records.work import NewPilot
from pilotage.model.values.identity import Credential, Identity
from pilotage.store import Store
from tests import postgresql
from tests.volatile_disk import VolatileDisk, volatile_disk
from tests.waiting import wait_for

from .house import House

pytestmark = [pytest.mark.endurance, pytest.mark.acceptance]

FAILURES = 3
"""How often the power fails."""

ANSWERS = 60
"""Jobs that pilots get before it fails."""

PILOTS = 4
OWNER = Identity(name="power", vo="power")
FEDERATION = """
name: power
sites: [ { name: near, nucleus: true } ]
storages: [ { name: disk, site: near, url: "file:///tmp", storage_min_free: 0 } ]
queues: [ { name: nodes, site: near, storage: disk, computing_element: {} } ]
loops: { period: 0.2 }
"""
TASK = {"name": "t", "command": ["true"], "jobs": 10, "scouts": 0}
OFFER = {"cores": 2, "memory": 0, "walltime": 1e6, "max_jobs": 2, "containment": "bubblewrap"}

Attempt = tuple[int, int]


@pytest.fixture
def disk() -> Iterator[VolatileDisk]:
    """A disk in memory, where that is possible: its ``fsync`` is quick there."""
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="pilotage-power-", dir=memory if memory.is_dir() else None))
    # The user of PostgreSQL's server must be able to enter it.
    place.chmod(0o755)
    try:
        with volatile_disk(place) as made:
            yield made
    finally:
        shutil.rmtree(place)


@dataclass
class Answered:
    """What clients were told."""

    tasks: list[int] = field(default_factory=list)
    given: Counter[Attempt] = field(default_factory=Counter)
    done: set[Attempt] = field(default_factory=set)
    held: dict[str, set[Attempt]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_what_was_answered_outlives_the_loss_of_power(
    database: str, disk: VolatileDisk, free_port: int
) -> None:
    file = disk.folder / "federation.yaml"
    file.write_text(FEDERATION)
    (disk.folder / "home").mkdir()
    with ExitStack() as stack:
        url, server = f"sqlite:///{disk.folder}/store.db", None
        if database == "postgresql":
            server = postgresql.start(disk.folder / "postgresql")
            stack.callback(server.cleanup)
            url = make_url(server.get_uri()).set(drivername="postgresql+psycopg").render_as_string(False)
        parts = {"all": (str(file), "--only", "split,broker,lift,finish,watch")}
        house = House(disk.folder / "home", url, free_port, file, parts)
        stack.callback(house.stop)
        # What the test itself made is no part of the promise.
        os.sync()
        answered = Answered(held={token: set() for token in _pilots(url)})
        for _ in range(FAILURES):
            house.start("all")
            house.call("GET", "/federation")
            _work(house, answered, len(answered.given) + ANSWERS)
            if server is not None:
                postgresql.kill(server)
            disk.lose_power()
            if server is not None:
                server.ensure_postgres_running()
            _check(url, answered)
        house.start("all")
        house.call("GET", "/federation")
        _work(house, answered, len(answered.given) + ANSWERS)
    assert not answered.faults
    assert set(answered.given.values()) == {1}, "no attempt was given to two pilots"
    assert len(answered.done) > FAILURES * ANSWERS / 2


def _pilots(url: str) -> list[str]:
    """Make running pilots. Return their tokens."""
    store = Store.open(url)
    new = NewPilot(
        queue="nodes", requirements="r", kind="generic", owner=OWNER, cores=2, memory=0, walltime=1e7
    )
    create = Create(records=(new,) * PILOTS, cause="test")
    decision = Decision(step="test", time=time.time(), seed=1, changes=(create,))
    ids = tuple(id_ for id_ in store.commit(decision, "test").created[0] if id_ is not None)
    move = Move(kind="pilot", ids=ids, source=PilotState.CREATED, target=PilotState.RUNNING, cause="test")
    store.commit(Decision(step="test", time=time.time(), seed=1, changes=(move,)), "test")
    tokens = [store.tokens.create(Credential(role="pilot", identity=OWNER, pilot=id_)) for id_ in ids]
    store.close()
    return tokens


def _work(house: House, answered: Answered, given: int) -> None:
    """Let people submit and pilots work until so many attempts were given. Then kill the server."""
    clients = [threading.Thread(target=_submit, args=(house, answered))]
    clients += [threading.Thread(target=_pilot, args=(house, token, answered)) for token in answered.held]
    for client in clients:
        client.start()
    wait_for(lambda: len(answered.given) >= given or answered.faults, "matches")
    house.running["all"].kill()
    house.running["all"].wait()
    for client in clients:
        client.join()


def _submit(house: House, answered: Answered) -> None:
    """Submit tasks until the server ends."""
    try:
        while (answer := house.ask("POST", "/tasks", {"tasks": [TASK]})).is_success:
            answered.tasks += [task["id"] for task in answer.json()["tasks"]]
        answered.faults.append(answer.text)
    except httpx.TransportError:
        return


def _pilot(house: House, token: str, answered: Answered) -> None:
    """Report what it holds, ask for jobs and report their end, until the server ends."""
    held = answered.held[token]
    with httpx.Client(
        base_url=f"{house.url}/api/v1/pilot", headers={"Authorization": f"Bearer {token}"}
    ) as client:
        try:
            stops = _posted(client, "/report", {"holding": sorted(held)})["stop"]
            answered.faults += [f"attempt {attempt} is stopped" for attempt in stops]
            while True:
                held |= _matched(client, answered.given)
                ends = [
                    {"job": job, "attempt": attempt, "state": state}
                    for job, attempt in sorted(held)
                    for state in ("running", "done")
                ]
                _posted(client, "/report", {"holding": sorted(held), "reports": ends})
                answered.done |= held
                held.clear()
        except httpx.TransportError:
            return
        except httpx.HTTPStatusError as error:
            answered.faults.append(error.response.text)


def _matched(client: httpx.Client, given: Counter[Attempt]) -> set[Attempt]:
    orders = [job for work in _posted(client, "/match", OFFER)["works"] for job in work["jobs"]]
    matched = {(order["job"], order["attempt"]) for order in orders}
    given.update(matched)
    return matched


def _posted(client: httpx.Client, path: str, body: object) -> Any:
    answer = client.post(path, json=body, timeout=60)
    answer.raise_for_status()
    return answer.json()


def _check(url: str, answered: Answered) -> None:
    """Compare the store with what clients were told."""
    store = Store.open(url)
    try:
        lost = [task for task in answered.tasks if store.queries.task(task) is None]
        assert not lost, f"{len(lost)} of {len(answered.tasks)} accepted tasks are lost"
        waiting = {JobState.DEFINED, JobState.PENDING, JobState.ACTIVATED}
        states = {attempt: _state(store, attempt) for attempt in answered.given}
        lost_matches = [attempt for attempt, state in states.items() if state is None or state in waiting]
        assert not lost_matches, f"{len(lost_matches)} of {len(states)} matches are lost"
        at_pilots = set(AT_A_PILOT)
        unreported = [attempt for attempt in answered.done if states[attempt] in at_pilots]
        assert not unreported, f"{len(unreported)} of {len(answered.done)} reports are lost"
    finally:
        store.close()


def _state(store: Store, attempt: Attempt) -> JobState | None:
    """Return the state of a job in this attempt."""
    job, number = attempt
    found = store.queries.job(job)
    return found.state if found is not None and found.attempt == number else None
