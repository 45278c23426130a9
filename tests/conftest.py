"""How tests are run: what is marked, in which order, and which ports they have."""

import atexit
import fcntl
import gc
import os
import socket
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

# A run tries the same examples each time, so it tells what a change broke. `search` looks for other examples.
for _profile, _examples in {"quick": 10, "usual": 40, "thorough": 100, "search": 1000}.items():
    settings.register_profile(
        _profile,
        print_blob=True,
        max_examples=_examples,
        deadline=None,
        derandomize=_profile != "search",
    )
settings.load_profile("usual")


_POSTGRESQL = {"postgresql_url", "empty_postgresql_url", "postgresql_server"}

# Where the SQL of the two kinds of store differs, `make test` runs both. Elsewhere the second one is a twin.
_BOTH_STORES = (
    "store/",
    "acceptance/",
    *(f"flow/test_{name}.py" for name in ("match_and_report", "matching", "borrowing")),
)


def pytest_configure(config: pytest.Config) -> None:
    """Make stores known where tests run: whoever deals them out to workers needs none of what they import."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker or not config.getoption("numprocesses", None):
        config.pluginmanager.import_plugin("tests.stores")
    if worker:
        # Workers that write one cache of Unicode's categories at once disturb each other.
        set_hypothesis_home_dir(config.rootpath / ".hypothesis" / worker)
        # Last of all: to take apart all that was imported took as long as a quarter of its import.
        atexit.register(os._exit, 0)


def pytest_xdist_auto_num_workers() -> int:
    """Workers of `-n auto`: two for each core, because the longest tests wait more than they compute."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None]:
    """Import what others have compiled. Then look for garbage less often: tests leave little in cycles."""
    _import_share(session.config)
    yield
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)


def _import_share(config: pytest.Config) -> None:
    """Import this worker's share of all test modules, before it collects them all.

    On a new clone, each module is compiled once that way. Otherwise each worker compiled all of them, 13 s of
    processor time each.
    """
    worker = getattr(config, "workerinput", None)
    paths = [config.rootpath / argument for argument in config.args]
    if worker is None or not all(path.is_dir() for path in paths):
        return
    ignored = [Path(path).resolve() for path in config.getoption("ignore") or ()]
    modules = sorted(
        path
        for directory in paths
        for path in directory.rglob("test_*.py")
        if not any(path.is_relative_to(other) for other in ignored)
    )
    number, workers = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in modules[number::workers]:
        # What is skipped or fails does so again when it is collected, and is reported there.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what some targets leave out, and start the longest files first so that no worker ends alone."""
    for item in items:
        if {"acceptance", "sites"} & set(item.path.parts):
            item.add_marker("acceptance")
        callspec = getattr(item, "callspec", None)
        fixtures = set(getattr(item, "fixturenames", ()))
        if _POSTGRESQL & fixtures or (callspec and "postgresql" in callspec.params.values()):
            item.add_marker("postgresql")
            if "store_url" in fixtures and not _runs_both_stores(item.path):
                item.add_marker("twin")
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (not item.get_closest_marker("acceptance"), -slow[item.path]))


def _runs_both_stores(path: Path) -> bool:
    return path.relative_to(Path(__file__).parent).as_posix().startswith(_BOTH_STORES)


@pytest.fixture
def free_port() -> Iterator[int]:
    """A loopback port that no other test takes."""
    with locked_port() as port:
        yield port


@contextmanager
def locked_port() -> Iterator[int]:
    """A loopback port that no other test takes, in this or any other run of tests on this machine.

    The lock is what holds it: a port that was only looked at may be somebody else's a moment later. Ports
    below 32768 are never given to outgoing connections.
    """
    # Another user's directory could not be written to: the probe is what tells of that one's ports.
    directory = Path(tempfile.gettempdir()) / f"pilotage-test-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    first = os.getpid() % 10_000
    for number in range(first, first + 10_000):
        port = 20_000 + number % 10_000
        with (directory / str(port)).open("w") as lock, socket.socket() as probe:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            probe.close()
            yield port
            return
    raise AssertionError("no port of 20000 to 29999 is free")
