"""Real pilots at queues whose storages they cannot open by themselves; their logs hold no credential."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from tests.conftest import locked_port
from tests.movers.servers import nginx, program, running
from tests.movers.sftp import sftp
from tests.movers.xrootd import xrootd
from tests.waiting import PATIENCE, wait_for

from .house import House

SECRETS = {"web": "token-of-a-test", "s3": "secret-of-a-test"}

HEAD = """
name: asking
brokerage: {{ storage_min_free: 0 }}
director: {{ period: 0.2 }}
loops: {{ period: 0.2, heartbeat: 0.4, pilot_idle: 5 }}
sites: [{sites}]
storages:
{storages}
queues:
{queues}
"""
STORAGE = '  - {{ name: {name}-disk, site: {name}, url: "{url}", options: {options} }}\n'
QUEUE = """  - {{ name: {name}, site: {name}, storage: {name}-disk,
      computing_element: {{ max_pilots: 1, options: {{ directory: "{place}/pilots" }} }} }}
"""

Served = tuple[str, dict[str, str]]
"""URL and options of a storage."""


def _web(root: Path, place: Path, stack: ExitStack) -> Served:
    refuse = f'if ($http_authorization != "Bearer {SECRETS["web"]}") {{ return 403; }}'
    address = stack.enter_context(nginx(root, place, refuse))
    (place / "token").write_text(SECRETS["web"])
    return f"http://{address}", {"token_file": str(place / "token")}


def _s3(_: Path, place: Path, stack: ExitStack) -> Served:
    port = stack.enter_context(locked_port())
    command = [program("moto_server", "pip install moto[s3,server]"), "-H", "127.0.0.1", "-p", str(port)]
    stack.enter_context(running(command, port, place / "log"))
    url = f"http://127.0.0.1:{port}"
    httpx.put(f"{url}/bucket", timeout=PATIENCE).raise_for_status()
    httpx.put(f"{url}/bucket/s3.txt", content=b"s3\n", timeout=PATIENCE).raise_for_status()
    return "s3://bucket", {"endpoint_url": url, "region": "us-east-1"}


def _sftp(root: Path, place: Path, stack: ExitStack) -> Served:
    server = stack.enter_context(sftp(place / "ssh"))
    return f"{server.url}{root}", server.options


def _xrootd(root: Path, place: Path, stack: ExitStack) -> Served:
    return stack.enter_context(xrootd(root, place / "xrootd")).url, {}


KINDS: dict[str, Callable[[Path, Path, ExitStack], Served]] = {
    "web": _web,
    "s3": _s3,
    "sftp": _sftp,
    "xrootd": _xrootd,
}
WAYS = {"web": "an address", "s3": "an address", "sftp": "the server", "xrootd": "xrdcp"}


@pytest.fixture(scope="module")
def house() -> Iterator[tuple[House, set[str]]]:
    """A running house with a queue at each kind of storage whose server is installed; which these are."""
    served: dict[str, Served] = {}
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        # Not in pytest's own folder: other users cannot enter that, and XRootD is one.
        place = Path(stack.enter_context(TemporaryDirectory(prefix="pilotage-test-")))
        place.chmod(0o755)
        stack.callback(os.umask, os.umask(0))
        patch.setenv("AWS_ACCESS_KEY_ID", "key-of-a-test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRETS["s3"])
        (place / "pilots").mkdir()
        for name, serve in KINDS.items():
            for folder in (f"{name}-root", name):
                (place / folder).mkdir()
            try:
                served[name] = serve(place / f"{name}-root", place / name, stack)
            except pytest.skip.Exception:
                continue
            (place / f"{name}-root" / f"{name}.txt").write_text(f"{name}\n")
        port = stack.enter_context(locked_port())
        house = House(place / "home", f"sqlite:///{place}/store.db", port, _federation(place, served), {})
        house.home.mkdir()
        house.parts = {"all": (str(house.federation),)}
        stack.callback(house.stop)
        house.start("all")
        yield house, set(served)


def _federation(place: Path, served: dict[str, Served]) -> Path:
    federation = place / "federation.yaml"
    storages = [
        STORAGE.format(name=name, url=url, options=options) for name, (url, options) in served.items()
    ]
    queues = [QUEUE.format(name=name, place=place) for name in served]
    sites = ", ".join(f"{{ name: {name} }}" for name in served)
    federation.write_text(HEAD.format(sites=sites, storages="".join(storages), queues="".join(queues)))
    return federation


@pytest.mark.endurance
@pytest.mark.acceptance
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_reads_and_writes_at_a_storage_that_its_pilot_cannot_open(
    house: tuple[House, set[str]], kind: str
) -> None:
    made, served = house
    if kind not in served:
        pytest.skip(f"there is no server for {kind}")
    work: dict[str, Any] = {
        "name": kind,
        "queues": [kind],
        "scouts": 0,
        "walltime": 60,
        "command": ["sh", "-c", "cat inputs/* inputs/* > out.txt; printenv"],
        "inputs": [{"storages": [f"{kind}-disk"], "glob": f"{kind}.txt"}],
        "outputs": ["out.txt"],
    }
    (task,) = made.call("POST", "/tasks", {"tasks": [work]})["tasks"]

    def over() -> bool:
        return bool(made.call("GET", f"/tasks/{task['id']}")["state"] in ("finished", "failed"))

    wait_for(over, f"the end of the task at {kind}")
    (job,) = made.call("GET", f"/tasks/{task['id']}/jobs")["jobs"]
    assert job["state"] == "finished", f"{job['error']}\n{made.last_words()}"
    (output,) = made.call("GET", f"/tasks/{task['id']}/outputs")["files"]
    headers = {"Authorization": f"Bearer {(made.home / 'token').read_text()}"}
    content = httpx.get(
        f"{made.url}/api/v1/files/content", params={"file": output["file"]}, headers=headers, timeout=PATIENCE
    )
    assert content.text == f"{kind}\n" * 2
    told = [path.read_text() for path in (made.home.parent / "pilots").glob("**/*.log")]
    told += [made.last_words(), str(made.call("GET", f"/jobs/{job['id']}/logs"))]
    assert not [secret for secret in SECRETS.values() for text in told if secret in text]
    assert any(f"{kind}.txt: by {WAYS[kind]}" in text for text in told), told
