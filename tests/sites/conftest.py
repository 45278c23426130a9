"""Real batch systems for tests, started where this machine has what it takes.

Each is started once for a worker; ``--dist loadfile`` keeps together the tests of a file, which mostly want
one system.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import locked_port

from . import arc, kubernetes
from . import gridengine as gridengines
from . import login as logins
from . import slurm as slurms
from . import slurmrest as rests


@pytest.fixture(scope="session")
def running_slurm() -> Iterator[slurms.Slurm]:
    """A Slurm of 16 slots, for all tests that leave it as they found it."""
    if lacking := slurms.lacking():
        pytest.skip(lacking)
    with slurms.slurm() as bed:
        yield bed


@pytest.fixture
def slurm(running_slurm: slurms.Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[slurms.Slurm]:
    """A Slurm without jobs, that commands of this process reach."""
    for name, value in running_slurm.environment.items():
        monkeypatch.setenv(name, value)
    yield running_slurm
    running_slurm.clear()


@pytest.fixture(scope="session")
def arc_server() -> Iterator[arc.ArcServer]:
    """An ARC computing element, for all tests that end the jobs they made."""
    if lacking := arc.lacking():
        pytest.skip(lacking)
    place = Path(tempfile.mkdtemp(prefix="pilotage-arc-"))
    place.chmod(0o755)
    with locked_port() as port:
        server = arc.ArcServer(place, port)
        try:
            server.prepare()
            server.start()
            yield server
        finally:
            server.stop()
            shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that the user may enter to whom ARC maps pilots; what is made in it is everybody's."""
    before = os.umask(0)
    made = Path(tempfile.mkdtemp(prefix="pilotage-sites-"))
    made.chmod(0o755)
    yield made
    os.umask(before)
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def login(slurm: slurms.Slurm) -> Iterator[logins.LoginNode]:
    """A login node of that Slurm."""
    if lacking := logins.lacking():
        pytest.skip(lacking)
    with logins.login_node(slurm.environment) as node:
        yield node


@pytest.fixture
def rest_options(slurm: slurms.Slurm, tmp_path: Path, free_port: int) -> Iterator[dict[str, Any]]:
    """Options that reach the REST service of that Slurm."""
    if lacking := rests.lacking():
        pytest.skip(lacking)
    with rests.rest_service(slurm, free_port, tmp_path / "slurm.token") as options:
        yield options


@pytest.fixture(scope="session")
def kubernetes_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Options that reach a Kubernetes API server with its controllers, and without nodes."""
    if lacking := kubernetes.lacking():
        pytest.skip(lacking)
    with ExitStack() as stack:
        etcd, peers, api = (stack.enter_context(locked_port()) for _ in range(3))
        yield stack.enter_context(kubernetes.cluster(tmp_path_factory.mktemp("k8s"), (etcd, peers, api)))


@pytest.fixture(scope="session")
def running_grid_engine() -> Iterator[gridengines.GridEngine]:
    """A Grid Engine of eight slots, for all tests that leave it as they found it."""
    if lacking := gridengines.lacking():
        pytest.skip(lacking)
    with gridengines.grid_engine() as bed:
        yield bed


@pytest.fixture
def grid_engine(
    running_grid_engine: gridengines.GridEngine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[gridengines.GridEngine]:
    """A Grid Engine without jobs, that commands of this process reach."""
    for name, value in running_grid_engine.environment.items():
        monkeypatch.setenv(name, value)
    yield running_grid_engine
    running_grid_engine.clear()


@pytest.fixture
def machine() -> Iterator[logins.LoginNode]:
    """A machine without a batch system, reached by SSH."""
    if lacking := logins.lacking():
        pytest.skip(lacking)
    with logins.login_node({"PATH": f"{os.environ['PATH']}:{slurms.PLACES}"}) as node:
        yield node
