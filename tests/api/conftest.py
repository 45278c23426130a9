"""An application on a real store: a small federation, people of two VOs, and a clock that stands still."""

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.applications import Starlette

with warnings.catch_warnings():  # it asks for a client that is not the one this project uses
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.outside.secret_keys import SecretKeys
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import take
from pilotage.flow.steps import STEPS, step
from pilotage.model.documents.decision import Create, Decision, Move
from pilotage.model.records.federation import ComputingElement, Federation, Queue, Server, Site, Storage
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import NewPilot, PilotKind
from pilotage.model.values.identity import Credential, Identity, Role
from pilotage.server.api import PREFIX, create_app
from pilotage.server.api.app import document
from pilotage.server.api.edge.access import KnownTokens
from pilotage.server.api.work.event_hub import EventHub
from pilotage.store import JobDetails, Store
from tests import sqlite
from tests.waiting import wait_for
from tests.watched_reads import _watched_steps

__all__ = ["_watched_steps"]

NOW = 1_800_000_000.0
ALICE = Identity(name="alice", vo="atlas", group="higgs")
BOB = Identity(name="bob", vo="atlas", group="higgs")
OTHER_ALICE = Identity(name="alice", vo="belle")

openapi = cache(document)
"""The OpenAPI document, made once for all tests that read it."""


def federation(directory: Path) -> Federation:
    return Federation(
        name="small",
        sites=(Site(name="north", nucleus=True), Site(name="south")),
        storages=(
            Storage(name="north-disk", site="north", url=f"file://{directory}/north"),
            Storage(name="south-disk", site="south", url="memory://south", options={"auto_mkdir": "secret"}),
        ),
        queues=(
            Queue(
                name="north-queue",
                site="north",
                storage="north-disk",
                computing_element=ComputingElement(
                    options={"environment": {"PASSWORD": "secret"}},
                    servers=(Server(name="door", options={"environment": {"TOKEN": "secret"}}),),
                ),
            ),
            Queue(name="south-queue", site="south", storage="south-disk"),
        ),
    )


_IDLE: list[Starlette] = []
_LOOPS: list[BlockingPortal] = []


@pytest.fixture(scope="session", autouse=True)
def loop() -> Iterator[None]:
    """One event loop answers all requests, as a server's does: starting one took longer than most answers."""
    with start_blocking_portal() as portal:
        _LOOPS.append(portal)
        yield


@dataclass
class House:
    """The application and what stands behind it."""

    store: Store
    now: float = NOW
    keys: SecretKeys = field(default_factory=lambda: SecretKeys(None))
    runtime: Runtime = field(init=False)

    def __post_init__(self) -> None:
        self.runtime = Runtime(
            self.store,
            STEPS,
            load=load,
            movers=InstalledMovers,
            clock=lambda: self.now,
            secret_keys=self.keys,
        )
        # Building the routes takes 0.1 s of processor time: applications whose house is gone are used again.
        self.app: Starlette = _IDLE.pop() if _IDLE else create_app(self.runtime, tes="containers")
        self.app.state.runtime = self.runtime
        self.app.state.events = EventHub(self.runtime)
        self.app.state.offers = ()
        self.app.state.tokens = KnownTokens(self.store, self.runtime.clock)

    def woken(self) -> set[str]:
        """The steps that were woken since the last call."""
        return {step.name for step in STEPS if self.runtime.wakeups.is_woken(step.name)}

    def close(self) -> None:
        """Close the store; leave the application to the next house."""
        self.store.close()
        _IDLE.append(self.app)

    def client(self, token: str | None = None) -> TestClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        client = TestClient(self.app, base_url=f"http://testserver{PREFIX}", headers=headers)
        client.portal = _LOOPS[0]
        return client

    def as_(
        self, role: Role, identity: Identity, pilot: int | None = None, sites: Iterable[str] = ()
    ) -> TestClient:
        credential = Credential(role=role, identity=identity, pilot=pilot, sites=frozenset(sites))
        return self.client(self.store.tokens.create(credential))

    def ask_sites(self) -> None:
        """Ask the batch systems of sites, and store their answers as advertisements."""
        take(step("advertise"), self.runtime, self.runtime.begin(1000))
        wait_for(self.runtime.elements.inquiries.server_reports, "a batch system answers")
        take(step("advertise"), self.runtime, self.runtime.begin(1000))

    def job(self, job: int) -> JobDetails:
        found = self.store.queries.job(job)
        assert found is not None
        return found

    def commit(self, *changes: Any) -> None:
        self.store.commit(Decision(step="test", time=self.now, seed=1, changes=changes), "test")

    def split(self) -> None:
        take(step("split"), self.runtime, self.runtime.begin(1000))

    def activate(self, task: int, queue: str = "north-queue") -> tuple[int, ...]:
        """Jobs of a task that was submitted, made ready to be matched at a queue."""
        self.split()
        ids = tuple(job.id for job in self.store.queries.jobs(task, None, 1000, 0))
        changes = {"queue": queue}
        self.commit(
            Move(
                kind="job",
                ids=ids,
                source=JobState.DEFINED,
                target=JobState.ACTIVATED,
                cause="brokered",
                changes=changes,
            )
        )
        return ids

    def pilot(
        self,
        queue: str = "north-queue",
        owner: Identity = ALICE,
        walltime: float = 86_400,
        requirements: str = "",
        kind: PilotKind = "generic",
        site: str = "",
    ) -> tuple[int, TestClient]:
        """A pilot in a queue, and a client with its token."""
        new = NewPilot(
            queue=queue,
            site=site,
            requirements=requirements,
            kind=kind,
            owner=owner,
            cores=1,
            memory=4000,
            walltime=walltime,
        )
        made = self.store.commit(
            Decision(step="test", time=self.now, seed=1, changes=(Create(records=(new,), cause="needed"),)),
            "test",
        )
        id_ = made.created[0][0]
        assert id_ is not None
        self.commit(
            Move(
                kind="pilot",
                ids=(id_,),
                source=PilotState.CREATED,
                target=PilotState.SUBMITTED,
                cause="submitted",
            )
        )
        return id_, self.as_("pilot", owner, id_)


@pytest.fixture(scope="session")
def template(databases: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the federation and nothing else, to be copied: faster than made anew for each test."""
    path = databases / "federation.db"
    store = Store.open(sqlite.new_store(path))
    storages = tmp_path_factory.mktemp("storages")
    (storages / "north").mkdir()
    store.save_federation(federation(storages), "test")
    store.close()
    return path


def copied(template: Path) -> Iterator[House]:
    with tempfile.TemporaryDirectory(dir=template.parent) as directory:
        house = House(Store.open(f"sqlite:///{shutil.copy(template, directory)}"))
        yield house
        house.close()


@pytest.fixture
def house(template: Path) -> Iterator[House]:
    yield from copied(template)


@pytest.fixture(scope="module")
def unchanged(template: Path) -> Iterator[House]:
    """A house for all tests of a module that are refused everything."""
    yield from copied(template)


@pytest.fixture
def alice(house: House) -> TestClient:
    return house.as_("user", ALICE)


@pytest.fixture
def operator(house: House) -> TestClient:
    return house.as_("operator", Identity(name="olga"))


Submit = Callable[..., int]


def submit_to(client: TestClient, **fields: Any) -> int:
    """Submit a task; returns its id."""
    answer = client.post("/tasks", json={"tasks": [{"name": "work", "command": ["true"], **fields}]})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["tasks"][0]["id"])


@pytest.fixture
def submit(alice: TestClient) -> Submit:
    """Submits a task of Alice's; returns its id."""
    return partial(submit_to, alice)
