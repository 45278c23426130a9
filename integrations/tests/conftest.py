"""One server for all tests of the integrations."""

import os
import signal
from collections.abc import Iterator

import pytest
from server import LocalServer
from workflow import Workflow

from pilotage.client import Client

# Programs in the background ignore Ctrl-C, and so would Snakemake below them.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server that runs."""
    server = LocalServer(tmp_path_factory.mktemp("pilotage"))
    server.start()
    os.environ |= server.environment
    try:
        yield server
    finally:
        with server.client() as client:
            for task in client.tasks(limit=1000):
                if not task.has_ended:
                    client.cancel(task)
        server.stop()
        server.stop_pilots()


@pytest.fixture
def client(server: LocalServer) -> Iterator[Client]:
    """A client of it."""
    with server.client() as client:
        yield client


@pytest.fixture
def workflow(server: LocalServer, request: pytest.FixtureRequest) -> Iterator[Workflow]:
    """A folder on the shared disk: its name has blanks and umlauts."""
    folder = server.shared / f"Größe {request.node.name}"
    folder.mkdir()
    workflow = Workflow(folder, server.environment)
    yield workflow
    workflow.end()
