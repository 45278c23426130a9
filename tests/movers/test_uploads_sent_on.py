"""Doors that send uploads on to disk servers, as those of dCache and XRootD do."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pilotage.adapters.movers.http.http_backend import HttpBackend
from pilotage.agent.files.web import Web
from pilotage.ports.moving import StorageError

from .test_http import answer, server


class Pool:
    """Keeps what is put, and the headers that came with it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.authorizations: list[str | None] = []

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        assert request.command == "PUT"
        self.authorizations.append(request.headers["Authorization"])
        self.files[request.path] = request.rfile.read(int(request.headers["Content-Length"]))
        answer(request, 201)


class Door:
    """Sends each PUT on: when it has read it all, or at its headers, whereupon it hangs up."""

    def __init__(self, pool: Pool, to: str, early: bool) -> None:
        self.pool, self.to, self.early = pool, to, early
        self.keeps_empty = False
        self.own: dict[str, bytes] = {}
        self.puts: list[tuple[str, int]] = []

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        match request.command:
            case "PUT":
                size = int(request.headers["Content-Length"])
                self.puts.append((request.path, size))
                if self.early:
                    request.close_connection = True
                    answer(request, 307, Location=f"{self.to}{request.path}", Connection="close")
                else:
                    content = request.rfile.read(size)
                    if self.to and (size or not self.keeps_empty):
                        answer(request, 307, Location=f"{self.to}{request.path}")
                    else:
                        self.own[request.path] = content
                        answer(request, 201)
            case "MOVE":
                files = self.pool.files if self.to else self.own
                files[urlsplit(request.headers["Destination"]).path] = files.pop(request.path)
                answer(request, 201)
            case "DELETE":
                files = self.pool.files if self.to else self.own
                answer(request, 204 if files.pop(request.path, None) is not None else 404)
            case _:
                answer(request, 201)


@contextmanager
def storage(
    early: bool, named: list[str] | None = None, token_file: str = ""
) -> Iterator[tuple[HttpBackend, Pool, Door]]:
    pool = Pool()
    with server(pool) as to:
        door = Door(pool, to, early)
        with server(door) as url:
            options = {"redirects_to": named} if named is not None else {}
            yield (
                HttpBackend(f"{url}/data", options | ({"token_file": token_file} if token_file else {})),
                pool,
                door,
            )


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("size", [0, 1, 5, 3_000_000])
def test_files_are_stored_where_the_door_sends_them(early: bool, size: int) -> None:
    with storage(early) as (backend, pool, _):
        for name in ("a", "b"):
            chunks = iter([b"x" * (size // 2), b"x" * (size - size // 2)])
            backend.store(f"f/{name}", ".part", chunks, size)
        assert {path: len(content) for path, content in pool.files.items()} == {
            "/data/f/a": size,
            "/data/f/b": size,
        }


def test_no_token_goes_to_another_server(tmp_path: object) -> None:
    file = f"{tmp_path}/token"
    with open(file, "w") as out:  # noqa: PTH123
        out.write("secret")
    with storage(False, token_file=file) as (backend, pool, _):
        backend.store("a", ".part", iter([b"xyz"]), 3)
        assert set(pool.authorizations) == {None}


def test_uploads_are_not_sent_on_to_others() -> None:
    with storage(False, named=[]) as (backend, pool, door):
        door.to = door.to.replace("127.0.0.1", "127.0.0.2")
        with pytest.raises(StorageError, match="is not known as a host of this storage"):
            backend.store("a", ".part", iter([b"xyz"]), 3)
        assert pool.files == {}


def test_a_server_that_keeps_uploads_is_asked_once() -> None:
    with storage(False) as (backend, _, door):
        door.to = ""
        for name in ("a", "b", "c"):
            backend.store(name, ".part", iter([b"xyz"]), 3)
        assert door.own == {f"/data/{name}": b"xyz" for name in ("a", "b", "c")}
        assert [size for _, size in door.puts] == [1, 3, 3, 3]


def test_a_server_that_begins_to_send_on_is_asked_from_then_on() -> None:
    with storage(False) as (backend, pool, door):
        to, door.to = door.to, ""
        backend.store("a", ".part", iter([b"xyz"]), 3)
        door.to = to
        with pytest.raises(StorageError, match="is not followed"):
            backend.store("b", ".part", iter([b"xyz"]), 3)
        backend.store("b", ".part", iter([b"xyz"]), 3)
        assert pool.files == {"/data/b": b"xyz"}


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("size", [0, 1, 5, 3_000_000])
def test_files_are_stored_behind_two_doors(early: bool, size: int) -> None:
    """As in a federation of XRootD: the first door knows sites, the second their disk servers."""
    with storage(early) as (_, pool, inner), server(inner) as to, server(Door(pool, to, early)) as url:
        backend = HttpBackend(f"{url}/data", {})
        for name in ("a", "b"):
            backend.store(f"f/{name}", ".part", iter([b"x" * size] if size else []), size)
        assert {path: len(content) for path, content in pool.files.items()} == {
            "/data/f/a": size,
            "/data/f/b": size,
        }


def test_a_door_that_keeps_empty_files_itself_sends_others_on() -> None:
    with storage(False) as (backend, pool, door):
        door.keeps_empty = True
        backend.store("a", ".part", iter([b"xyz"]), 3)
        assert pool.files == {"/data/a": b"xyz"}
        assert door.own == {}


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("size", [0, 5, 30_000_000])
def test_pilots_store_where_the_doors_send_them(early: bool, size: int, tmp_path: Path) -> None:
    """A door that hangs up at the headers breaks the connection before the answer is read."""
    (tmp_path / "file").write_bytes(b"x" * size)
    with storage(early) as (_, pool, inner), server(inner) as to, server(Door(pool, to, early)) as url:
        with (tmp_path / "file").open("rb") as source:
            Web({}, redirects_to=["127.0.0.1"]).ask("PUT", f"{url}/data/a", source).close()
        assert {path: len(content) for path, content in pool.files.items()} == {"/data/a": size}


def test_a_server_that_hangs_up_on_pilots_for_ever_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 30_000_000)
    asked = []

    def hang_up(request: BaseHTTPRequestHandler) -> None:
        asked.append(int(request.headers["Content-Length"]))
        request.close_connection = True
        if asked[-1] == 1:
            answer(request, 201)

    with (
        server(hang_up) as url,
        (tmp_path / "file").open("rb") as source,
        pytest.raises(OSError, match="Errno"),
    ):
        Web({}).ask("PUT", f"{url}/a", source)
    assert asked == [30_000_000, 1, 30_000_000]
