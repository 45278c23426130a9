"""A server with one local site, which runs what the tests submit."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotage.client import Client
from pilotage.settings import Settings
from tests.conftest import locked_port
from tests.waiting import wait_for


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The settings of a server with a site on this machine."""
    place = tmp_path_factory.mktemp("site")
    with locked_port() as port:
        environment = {
            **os.environ,
            "PILOTAGE_HOME": str(place / "home"),
            "PILOTAGE_URL": f"http://127.0.0.1:{port}",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        command = [sys.executable, "-m", "pilotage.cli"]
        subprocess.run([*command, "init"], check=True, capture_output=True, env=environment, cwd=place)
        with (place / "log").open("w") as log:
            up = subprocess.Popen([*command, "up"], env=environment, cwd=place, stdout=log, stderr=log)
            try:
                wait_for((place / "home" / "token").exists, "the server runs")
                yield Settings.read(home=str(place / "home"), url=f"http://127.0.0.1:{port}")
            finally:
                up.terminate()
                up.wait(60)


@pytest.fixture(scope="package")
def live(site: Settings) -> Iterator[Client]:
    """A client of that server."""
    with Client(settings=site) as client:
        yield client
