"""Whoever only looks changes nothing at a storage, whatever its kind.

The doctor writes a small file of its own below ``.scratch``, and removes it; where writing is forbidden it
writes nothing. A plan lists. Each kind is asked on a real server, which keeps what was there before.
A new kind fails here until its server is among ``SERVERS``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.adapters.movers.streaming import GROUP
from pilotage.model.records.federation import Storage, TransferService
from pilotage.model.values.entry_point_groups import TRANSFER_SERVICES
from pilotage.ports import adapters
from pilotage.server.doctor.installation import Installation
from pilotage.server.doctor.places import storage_space, storage_works

from .fts_server import fts_server
from .servers import nginx, rclone
from .sftp import sftp
from .test_contract import S3_ENVIRONMENT
from .xrootd import xrootd

Access = tuple[str, dict[str, Any]]
"""URL and options of a storage."""


@contextmanager
def folder(root: Path, _: Path) -> Iterator[Access]:
    yield f"file://{root}", {}


@contextmanager
def web(root: Path, place: Path) -> Iterator[Access]:
    with nginx(root, place) as address:
        yield f"http://{address}", {}


@contextmanager
def bucket(root: Path, place: Path) -> Iterator[Access]:
    with rclone("s3", root.parent, "--auth-key", "key-of-a-test,secret-of-a-test") as address:
        yield f"s3://{root.name}", {"endpoint_url": f"http://{address}", "region": "us-east-1"}


@contextmanager
def login(root: Path, place: Path) -> Iterator[Access]:
    with sftp(place / "sshd") as server:
        yield f"{server.url}{root}", dict(server.options)


@contextmanager
def xroot(root: Path, place: Path) -> Iterator[Access]:
    with xrootd(root, place / "xrootd") as server:
        yield server.url, {}


SERVERS: Mapping[str, Callable[[Path, Path], AbstractContextManager[Access]]] = {
    "pilotage.adapters.movers.storages.local:LocalBackend": folder,
    "pilotage.adapters.movers.http.http_backend:HttpBackend": web,
    "pilotage.adapters.movers.storages.s3_backend:S3Backend": bucket,
    "pilotage.adapters.movers.sftp.sftp_backend:SftpBackend": login,
    "pilotage.adapters.movers.storages.xrootd_backend:XRootDBackend": xroot,
}
CHANGES = ("store", "rename", "delete", "delete_folder", "grant", "upload_door")


def noted(kind: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that a backend is asked to change, from now on."""
    module, _, name = kind.partition(":")
    backend, found = getattr(import_module(module), name), list[str]()
    for change in CHANGES:
        if (call := getattr(backend, change, None)) is not None:

            def wrapped(self: object, path: str, *args: Any, _call: Any = call, **named: Any) -> Any:
                found.append(path)
                return _call(self, path, *args, **named)

            monkeypatch.setattr(backend, change, wrapped)
    return found


def there(root: Path) -> dict[str, bytes]:
    """The folders and files of a storage."""
    return {str(one.relative_to(root)): b"" if one.is_dir() else one.read_bytes() for one in root.rglob("*")}


def look(storage: Storage) -> list[str]:
    """What the doctor finds, after a plan has listed the inputs."""
    movers, known = InstalledMovers(lambda: None), cast(Installation, None)
    try:
        assert [one.name for one in movers.for_storage(storage).scan(storage, "data/*")] == ["data/in"]
    finally:
        movers.close()
    return [one.what for examine in (storage_works, storage_space) for one in examine(known, storage)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted({one.value for one in adapters.installed(GROUP).values()}))
def test_whoever_looks_leaves_a_storage_as_it_was(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roots: dict[str, Path]
) -> None:
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    root, place = roots["north"], tmp_path / "server"
    place.mkdir()
    for name in ("data/in", ".scratch/demo/1.1/out"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(b"kept")
    with SERVERS[kind](root, place) as (url, options):
        before, changed = there(root), noted(kind, monkeypatch)
        storage = Storage(name="north", site="north", url=url, options=options)
        assert look(storage) == []
        assert changed, "what the doctor writes would not be seen here"
        assert all(path.startswith(".scratch/doctor-") for path in changed), changed
        assert there(root) == before
        changed.clear()
        closed = Storage(
            name="north", site="north", url=url, options=options, blacklisted=("write_lan", "write_wan")
        )
        assert look(closed) == []
        assert changed == []
        assert there(root) == before


@pytest.mark.parametrize("kind", sorted(adapters.installed(TRANSFER_SERVICES)))
def test_whoever_looks_submits_nothing_to_a_transfer_service(kind: str, roots: dict[str, Path]) -> None:
    assert kind == "fts", "serve the other kind, too"
    (roots["north"] / "data").mkdir()
    (roots["north"] / "data/in").touch()
    with fts_server() as server:
        service = TransferService(kind=kind, url=server.url, options={"token_file": "/none"})
        url = f"file://{roots['north']}"
        assert look(Storage(name="north", site="north", url=url, transfer_service=service)) == []
        assert [line for line in server.requests if not line.startswith("GET ")] == []
