"""Tasks of TES on a real server, whose URLs lead to a real S3 server, an SSH server and XRootD."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from pilotage.server.api.edge.dependencies import TES_PREFIX
from tests.conftest import locked_port
from tests.movers.servers import rclone
from tests.movers.sftp import sftp
from tests.movers.xrootd import xrootd

from .house import running
from .test_tes import ended, executor

KEY = {"AWS_ACCESS_KEY_ID": "key-of-a-test", "AWS_SECRET_ACCESS_KEY": "secret-of-a-test"}

Address = tuple[str, dict[str, str]]
"""URL and options of a storage."""


def _s3(root: Path, _: Path, stack: ExitStack) -> Address:
    (root / "bucket/lab").mkdir(parents=True)
    address = stack.enter_context(rclone("s3", root, "--auth-key", ",".join(KEY.values())))
    return "s3://bucket/lab", {"endpoint_url": f"http://{address}", "region": "us-east-1"}


def _sftp(root: Path, place: Path, stack: ExitStack) -> Address:
    server = stack.enter_context(sftp(place / "ssh"))
    return f"{server.url}{root}", server.options


def _xrootd(root: Path, place: Path, stack: ExitStack) -> Address:
    return f"{stack.enter_context(xrootd(root, place / 'xrootd')).url}/", {}


KINDS: dict[str, Callable[[Path, Path, ExitStack], Address]] = {"s3": _s3, "sftp": _sftp, "root": _xrootd}


@dataclass(frozen=True)
class Tes:
    """A client of TES, and the URL and the folder of each storage."""

    client: httpx.Client
    urls: dict[str, str]
    folders: dict[str, Path]

    def url(self, kind: str) -> str:
        """Return the URL of a storage. Skips the test where its server is not installed."""
        if kind not in self.urls:
            pytest.skip(f"there is no server for {kind}")
        return self.urls[kind]

    def texts(self, kind: str, below: str) -> dict[str, str]:
        """Return the content of each file in a folder of a storage, by its name."""
        folder = self.folders[kind] / below
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        return {str(file.relative_to(folder)): file.read_text() for file in files}


@pytest.fixture(scope="module")
def tes() -> Iterator[Tes]:
    """A server that runs, with a storage of each kind."""
    with ExitStack() as stack:
        # Not in pytest's own folder: other users cannot enter that, and XRootD is one.
        place = Path(stack.enter_context(TemporaryDirectory(prefix="pilotage-test-")))
        place.chmod(0o755)
        stack.callback(os.umask, os.umask(0))
        folders = {kind: place / f"{kind}-files" for kind in KINDS} | {"s3": place / "s3-files/bucket/lab"}
        addresses: dict[str, Address] = {}
        for kind, serve in KINDS.items():
            (place / f"{kind}-files").mkdir()
            (place / kind).mkdir()
            try:
                addresses[kind] = serve(place / f"{kind}-files", place / kind, stack)
            except pytest.skip.Exception:
                continue
            (folders[kind] / f"{kind} reads/deep").mkdir(parents=True)
            (folders[kind] / f"{kind} reads/ä b.txt").write_text(f"first of {kind}\n")
            (folders[kind] / f"{kind} reads/deep/c.txt").write_text(f"second of {kind}\n")
        port = stack.enter_context(locked_port())
        environment = KEY | {"PILOTAGE_TES": "nodes"}
        federation = json.dumps(_federation(place, addresses))
        house = stack.enter_context(running(place, port, federation, "disk", environment=environment))
        house.call("GET", "/queues")
        token = (house.home / "token").read_text()
        client = httpx.Client(base_url=f"{house.url}{TES_PREFIX}", auth=("me", token), timeout=60)
        urls = {kind: url.rstrip("/") for kind, (url, _) in addresses.items()}
        yield Tes(stack.enter_context(client), urls, folders)


def _federation(place: Path, addresses: dict[str, Address]) -> dict[str, Any]:
    """Return a federation of a queue with a disk, and of storages that deliver."""
    common = {"storage_min_free": 0, "delivery_folders": {"delivered": []}}
    element = {"kind": "process", "max_pilots": 1, "options": {"directory": str(place / "pilots")}}
    storages = [
        common | {"name": kind, "site": kind, "url": url, "options": options}
        for kind, (url, options) in addresses.items()
    ]
    return {
        "name": "tes",
        "director": {"period": 0.2},
        "loops": {"period": 0.2, "heartbeat": 0.3, "pilot_idle": 20},
        "sites": [{"name": name} for name in (*addresses, "north")],
        "storages": [*storages, common | {"name": "disk", "site": "north", "url": f"file://{place}/disk"}],
        "queues": [{"name": "north", "site": "north", "storage": "disk", "computing_element": element}],
        "links": [
            {"source": source, "destination": destination, "closeness": 1}
            for kind in addresses
            for source, destination in ((kind, "north"), ("north", kind))
        ],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_come_from_a_storage_and_outputs_go_to_all(tes: Tes, kind: str) -> None:
    here, targets = tes.url(kind), list(tes.urls)
    for turn in ("one", "two"):
        task = ended(
            tes.client,
            name=f"from {kind}",
            inputs=[
                {"url": f"{here}/{kind} reads/ä b.txt", "path": "/data/first"},
                {"url": f"{here}/{kind} reads", "path": "/data/all", "type": "DIRECTORY"},
            ],
            outputs=[
                output
                for target in targets
                for output in (
                    {"path": f"/{target}/sum", "url": f"{tes.url(target)}/delivered/{kind}/ü sum"},
                    {"path": f"/{target}/*.log", "path_prefix": f"/{target}"}
                    | {"url": f"{tes.url(target)}/delivered/{kind}/logs"},
                )
            ],
            executors=[
                executor("sh", "-c", f"cat first all/deep/c.txt > sum; echo {turn} > a.log", workdir="/data"),
                executor(
                    "sh", "-c", f"for to in {' '.join(targets)}; do cp /data/sum /data/a.log /$to; done"
                ),
            ],
        )
        assert task["state"] == "COMPLETE", task
        text = f"first of {kind}\nsecond of {kind}\n"
        texts = {"ü sum": text, "logs/a.log": f"{turn}\n"}
        assert {target: tes.texts(target, f"delivered/{kind}") for target in targets} == dict.fromkeys(
            targets, texts
        )
        urls = {(output["url"], output["size_bytes"]) for output in task["logs"][0]["outputs"]}
        sizes = {"ü sum": str(len(text)), "logs/a.log": "4"}
        assert urls == {
            (f"{tes.url(target)}/delivered/{kind}/{name}", size)
            for target in targets
            for name, size in sizes.items()
        }
        again = ended(
            tes.client,
            inputs=[{"url": f"{here}/delivered/{kind}/logs/a.log", "path": "/i/a.log"}],
            executors=[executor("cat", "/i/a.log")],
        )
        assert again["logs"][0]["logs"][0]["stdout"] == f"{turn}\n", again
