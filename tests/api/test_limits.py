"""Attacks on a real server's connections: without a token nothing is parsed, held or kept from others."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from pilotage import request_budget
from pilotage.federation.faults import Fault
from pilotage.model.values.identity import Credential
from pilotage.request_budget import MOST_FAULTS, MOST_SUGGESTIONS
from pilotage.server.api import create_app
from pilotage.server.api.edge.body_shapes import MOST_ITEMS, MOST_KEYS, STRETCH, shape_fault
from pilotage.server.api.edge.connections import LimitedProtocol, untaken
from pilotage.server.api.edge.measured_routes import SMALL_BODY
from pilotage.server.api.edge.sender_shares import LARGEST_BODY, MOST_BYTES
from tests import sqlite
from tests.waiting import PATIENCE, wait_for

from .conftest import ALICE, House, copied


class Impatient(LimitedProtocol):
    """A limit that a test reaches at once."""

    limit = 20
    reader_timeout = 2.0


class Server:
    """The application on a loopback port, in a thread."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self.listener.getsockname()[1]
        config = uvicorn.Config(create_app(house.runtime), http=Impatient, ws="none", log_config=None)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.listener],))
        self.thread.start()

    def close(self) -> None:
        """End it."""
        self.server.should_exit = True
        self.thread.join()

    def token(self, pilot: int | None = None) -> str:
        """A new token of Alice's, or of a pilot's."""
        role = "user" if pilot is None else "pilot"
        credential = Credential(role=role, identity=ALICE, pilot=pilot)  # type: ignore[arg-type]
        return self.house.store.tokens.create(credential)

    def connect(self) -> socket.socket:
        """A connection on which nothing was said yet."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        token: str = "",
        content: str = "application/json",
    ) -> tuple[int, str]:
        """Status and text of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Content-Type": content}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        with contextlib.closing(connection):
            connection.request(method, f"/api/v1{path}", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()


@pytest.fixture(scope="module")
def server(template: Path) -> Iterator[Server]:
    """One server for all attacks: it answers after each as it did before."""
    for house in copied(template):
        running = Server(house)
        yield running
        running.close()


def answer_of(connection: socket.socket) -> bytes:
    """All that a connection says until it is closed."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_a_body_without_a_token_is_refused_unread(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The announced 15 MB never arrive: an answer shows that nobody waited for them."""
    for token in ("", "Authorization: Bearer guessed\r\n"):
        with server.connect() as connection:
            head = f"POST /api/v1/tasks HTTP/1.1\r\nHost: a\r\n{token}Content-Length: 15000000\r\n\r\n"
            with contextlib.suppress(ConnectionError):
                connection.sendall(head.encode() + b"[" + b"[]," * 100_000)
            assert answer_of(connection).startswith(b"HTTP/1.1 401")


def text_of(size: int) -> bytes:
    """A body that is one text."""
    return b'"' + b"x" * (size - 2) + b'"'


def test_bodies_are_bounded_by_route_and_by_the_number_of_values(server: Server) -> None:
    token = server.token()
    status, text = server.ask("POST", "/tasks/1/what-if", b" " * (SMALL_BODY + 1), token)
    assert (status, str(SMALL_BODY) in text) == (413, True)
    status, text = server.ask("POST", "/tasks", b" " * (LARGEST_BODY + 1), token)
    assert (status, str(LARGEST_BODY) in text) == (413, True)
    status, text = server.ask("POST", "/workflows", text_of(SMALL_BODY + 1), token)
    assert status == 422
    status, text = server.ask("POST", "/tasks", b'{"tasks":[' + b"[]," * 1_500_000 + b"[]]}", token)
    assert (status, "more than 1000000 values" in text) == (413, True)


def test_the_bodies_of_one_person_take_so_much_memory_and_no_more(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies that arrive slowly waited in memory, 16 MB for each of 4,096 connections."""
    monkeypatch.setattr("pilotage.server.api.edge.sender_shares.BYTES_TIMEOUT", 0.1)
    token, other = server.token(), server.token(pilot=1)
    head = f"POST /api/v1/tasks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Length: "
    with server.connect() as slow:
        slow.sendall(f"{head}{LARGEST_BODY}\r\n\r\n".encode() + b" " * (LARGEST_BODY - 1000))

        def is_refused() -> bool:
            status, text = server.ask("POST", "/tasks", text_of(1_000_000), token)
            return status == 429 and str(MOST_BYTES) in text

        wait_for(is_refused, "a refusal, once all has arrived")
        assert server.ask("POST", "/tasks", b" " * 16_000, token)[0] == 422
        assert server.ask("GET", "/tasks", None, token)[0] == 200
        assert server.ask("POST", "/pilot/report", b" ", other)[0] not in (429, 503)
    wait_for(lambda: server.ask("POST", "/tasks", text_of(1_000_000), token)[0] == 422, "room again")


def test_large_bodies_of_one_person_that_come_together_wait_for_each_other(server: Server) -> None:
    """The fifth body of 15 MB was refused with 429, whatever it asked."""
    token, body = server.token(), text_of(LARGEST_BODY)
    with ThreadPoolExecutor(6) as pool:
        answers = [*pool.map(lambda _: server.ask("POST", "/tasks", body, token), range(6))]
    assert [status for status, _ in answers] == [422] * 6


def test_a_large_body_is_read_outside_the_event_loop(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of 11 MB held up everybody for 0.15 s. Others get their turn at each of its objects."""
    turns: list[threading.Thread] = []
    monkeypatch.setattr(request_budget, "check", lambda: turns.append(threading.current_thread()))
    body = json.dumps({"tasks": [{"name": "a"}] * 1000 + [{"name": "b" * SMALL_BODY}]}).encode()
    status, text = server.ask("POST", "/plan/broker", body, server.token())
    assert (status, "1000 items" in text) == (422, True)
    assert len(turns) >= 1000
    assert server.thread not in turns


@pytest.mark.parametrize("size", [100_000, 1_000_000])
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
def test_a_head_that_is_too_large_is_refused(server: Server, size: int, end: bytes) -> None:
    with server.connect() as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nX: " + b"x" * size + end)
        assert answer_of(connection)[:12] in (b"HTTP/1.1 431", b"")
    assert server.ask("GET", "/health")[0] == 200


def test_many_small_headers_are_too_large_together(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\n" + b"X: yyyyyyyyyyyyyyyy\r\n" * 3000 + b"\r\n")
        assert answer_of(connection).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("start", [b"", b"GET /api/v1/health HTTP/1.1\r\nHost: a\r\n"])
def test_a_connection_whose_head_does_not_come_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(Impatient, "head_timeout", 1.0)
    with server.connect() as connection:
        connection.sendall(start)
        assert answer_of(connection).startswith(b"HTTP/1.1 408")


def test_the_second_request_of_a_connection_has_the_same_time(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Impatient, "head_timeout", 1.0)
    with server.connect() as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: a\r\n\r\nGET /api/v1/health HTTP/1.1\r\nHo")
        answers = answer_of(connection)
    assert answers.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answers


def test_half_open_connections_keep_no_pilot_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """More connections than there is room for, none of which ever times out: pilots report all the same."""
    monkeypatch.setattr(Impatient, "head_timeout", 3600.0)
    number, _ = server.house.pilot()
    token = server.token(number)
    with contextlib.ExitStack() as held:
        for _ in range(3 * Impatient.limit):
            connection = held.enter_context(server.connect())
            connection.sendall(b"POST /api/v1/pilot/report HTTP/1.1\r\n")
        for _ in range(5):
            status, text = server.ask("POST", "/pilot/report", b'{"holding": [], "reports": []}', token)
            assert (status, json.loads(text)["stop"]) == (200, [])


@pytest.mark.slow
def test_requests_of_people_that_hang_leave_room_for_pilots(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More hanging requests than the server has threads."""
    monkeypatch.setattr(Impatient, "limit", 1000)
    number, _ = server.house.pilot()
    pilot, person = server.token(number), server.token()
    go_on = threading.Event()
    monkeypatch.setattr(type(server.house.store), "declared_federation", lambda _: go_on.wait())
    hanging = [
        threading.Thread(target=server.ask, args=("GET", "/federation", None, person)) for _ in range(60)
    ]
    for thread in hanging:
        thread.start()
    try:
        status, _ = server.ask("POST", "/pilot/report", b'{"holding": [], "reports": []}', pilot)
        assert status == 200
    finally:
        go_on.set()
        for thread in hanging:
            thread.join()


def test_faults_and_suggestions_are_bounded_by_the_request(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 900 tasks had 1,000 faults explained, each with its nearest known word: minutes, and 2 GB."""
    compared, explained = 0, 0

    def close(*_: object) -> list[str]:
        nonlocal compared
        compared += 1
        return []

    def fault(*given: Any) -> Fault:
        nonlocal explained
        explained += 1
        return Fault(*given)

    monkeypatch.setattr("difflib.get_close_matches", close)
    monkeypatch.setattr("pilotage.federation.messages.Fault", fault)
    task = {f"field {number}": 1 for number in range(300)}
    token = server.token()
    for path, more in (("/plan/broker", {}), ("/tasks", {}), ("/workflows", {"name": "w"})):
        compared = explained = 0
        body = json.dumps({"tasks": [task] * 100, **more}).encode()
        status, text = server.ask("POST", path, body, token)
        refused = json.loads(text)["refused"]
        assert (status, len(refused), {len(one["errors"]) > 0 for one in refused}) == (422, 100, {True})
        assert "has 301 faults" in refused[-1]["errors"][0]["message"]
        assert compared <= MOST_SUGGESTIONS
        assert explained <= MOST_FAULTS


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (json.dumps({f"k{number}": 1 for number in range(MOST_KEYS + 1)}), "10000 keys"),
        ('{"tasks": [' + "0," * MOST_ITEMS + "0]}", "200000 items"),
        ('{"tasks": [' + f"[{'[],' * 99_999}[]]," * 3 + "0]}", "200000 lists"),
        ('{"a": "' + "x" * SMALL_BODY + '", "b": ' + "[" * 200, "nests deeper"),
        ('"' + "a" * 4_000_000, ""),
        (" " * 4_000_000 + "{}", "blanks or digits in a row"),
        ('{"tasks": ' + "1" * 4_000_000 + "}", "blanks or digits in a row"),
        (json.dumps({"tasks": [{"name": 'a", {[\\"' * 200}] * 1000}), ""),
    ],
)
def test_a_large_body_of_a_bad_shape_is_not_parsed(server: Server, body: str, told: str) -> None:
    """An object of 900,000 keys held the event loop, which is everybody's, for a second."""
    status, text = server.ask("POST", "/plan/broker", body.encode(), server.token())
    assert status == (413 if told else 422)
    assert told in text


@pytest.mark.parametrize("content", ["application/JSON", "Application/Problem+Json; charset=utf-8"])
def test_no_name_of_its_kind_hides_the_shape_of_a_body(server: Server, content: str) -> None:
    body = json.dumps({f"k{number}": 1 for number in range(MOST_KEYS + 1)}).encode()
    status, text = server.ask("POST", "/plan/broker", body, server.token(), content)
    assert status == 413
    assert "10000 keys" in text


@pytest.mark.parametrize("filling", ["[", '\\"', "\\\\", "{ ", "a\\n"])
@pytest.mark.parametrize("shift", range(4))
def test_long_texts_hide_and_add_nothing(filling: str, shift: int) -> None:
    """A body is looked at in stretches, whose ends may lie in texts and between the signs of an escape."""
    text = f'"{"x" * shift}{filling * (2 * STRETCH // len(filling))}"'
    assert shape_fault(f'{{"a": [{text}, {text} , "b"], {text}: 1}}'.encode()) == ""
    for hidden in ("[" * 101, "{" + '"k":1,' * MOST_KEYS, "[" + "1," * MOST_ITEMS):
        assert shape_fault(f'{{"a": {text}, "b": {hidden}'.encode())


def test_no_encoding_hides_the_shape_of_a_body(server: Server) -> None:
    """In UTF-16 the sign ∀ has the byte of a quotation mark: all behind it counted as text."""
    keys = ", ".join(f'"k{number}": 1' for number in range(MOST_KEYS + 1))
    body = f'{{"tasks": ["∀", {{{keys}}}]}}'.encode("utf-16-le")
    status, text = server.ask("POST", "/plan/broker", body, server.token())
    assert status in (413, 422)
    assert "there is no such field" not in text


def test_work_for_a_client_that_has_gone_ends(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads went on for minutes with what nobody waited for."""
    begun, ended = threading.Event(), threading.Event()

    def without_end(*_: object) -> object:
        begun.set()
        try:
            while True:
                request_budget.check()
                time.sleep(0.01)
        except request_budget.ClientGone:
            ended.set()
            raise

    monkeypatch.setattr("pilotage.server.api.documents.checked", without_end)
    body = json.dumps({"tasks": [{"name": "a"}]}).encode()
    head = f"POST /api/v1/plan/broker HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token()}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(head.encode() + body)
        assert begun.wait(PATIENCE)
    assert ended.wait(PATIENCE)


HANGING = """
import signal, sys, threading
from pathlib import Path
from pilotage.server import process as server
from pilotage.settings import Settings
from pilotage.store import Store

server.LAST_GRACE = 0.0
server.REQUEST_GRACE = 1
home = Path(sys.argv[1])


def hang(_):
    (home / "hung").touch()
    threading.Event().wait()


Store.federation = Store.last_federation = hang
listener = server.listen("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
settings = Settings.read(home=str(home), store=f"sqlite:///{home}/store.db", finish_within="0")
server.run(settings, None, only=sys.argv[2:], listener=listener)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "loops"),
    [
        (signal.SIGTERM, ["split"]),
        (signal.SIGINT, ["finish", "stage"]),
        # Each signal and each number of loops has its test above.
        pytest.param(signal.SIGTERM, ["finish", "stage"], marks=pytest.mark.endurance),
        pytest.param(signal.SIGINT, ["split"], marks=pytest.mark.endurance),
    ],
)
def test_a_signal_ends_a_server_whose_requests_and_steps_hang(
    tmp_path: Path, number: signal.Signals, loops: list[str]
) -> None:
    """Every read of the federation hangs for ever, in requests as in loops."""
    sqlite.new_store(tmp_path / "store.db")
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, str(tmp_path), *loops],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        token = tmp_path / "token"
        # Its signals are taken care of before anything reads.
        wait_for(lambda: (tmp_path / "hung").exists() or process.poll() is not None, "the server starts")
        assert process.poll() is None, "the server ended"
        with socket.create_connection(("127.0.0.1", port)) as connection:
            request = f"GET /api/v1/federation HTTP/1.1\r\nAuthorization: Bearer {token.read_text()}\r\n\r\n"
            connection.sendall(request.encode())
            time.sleep(1)
            process.send_signal(number)
            _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert "ending now" in said
    finally:
        process.kill()
        process.communicate()  # its pipes are closed, too


LARGE = 64 << 20
"""Bytes that no socket takes before somebody reads them."""


def reading(server: Server) -> socket.socket:
    """A connection on which a large file comes, of which nothing was read yet."""
    disk = next(one for one in server.house.store.federation().storages if one.name == "north-disk")
    root = Path(disk.url.removeprefix("file://"))
    root.mkdir(parents=True, exist_ok=True)
    with (root / "large").open("wb") as file:
        file.truncate(LARGE)
    token = server.token()
    found = {"name": "large", "size": LARGE, "replicas": ["north-disk"]}
    server.ask("POST", "/files", json.dumps({"files": [found]}).encode(), token)
    connection = server.connect()
    # So that the server sees soon what is read here: else many MB wait in the system's buffers.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.sendall(
        b"GET /api/v1/files/content?file=large HTTP/1.1\r\nhost: x\r\n"
        + f"authorization: Bearer {token}\r\n\r\n".encode()
    )
    assert connection.recv(15) == b"HTTP/1.1 200 OK"
    return connection


def free_places(server: Server) -> int:
    return server.house.runtime.file_readers._free._value


@pytest.mark.slow
def test_a_reader_that_stalls_is_broken_off_and_its_place_is_free(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    before = free_places(server)
    with reading(server) as connection:
        wait_for(lambda: free_places(server) == before, "the end of what nobody reads")
        assert len(answer_of(connection)) < LARGE
    assert "a client took nothing of its answer for 2 s: broken off" in caplog.text


def test_what_a_slow_reader_takes_is_seen_at_once() -> None:
    """The system's own buffer takes more only in steps of a megabyte and more."""

    async def taken() -> tuple[int, int]:
        connected: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        served = await asyncio.start_server(lambda _, writer: connected.set_result(writer), "127.0.0.1", 0)
        with contextlib.closing(socket.socket()) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            client.connect(served.sockets[0].getsockname())
            writer = await connected
            writer.write(bytes(LARGE))
            read = 0

            def settled(below: int) -> bool:
                return untaken(writer.transport) <= LARGE - below

            await asyncio.to_thread(wait_for, lambda: settled(1), "the client's buffer fills")
            before = untaken(writer.transport)
            while untaken(writer.transport) == before:
                read += len(await asyncio.to_thread(client.recv, 4096))
                await asyncio.sleep(0.01)
            after = writer.transport.get_write_buffer_size()
            writer.transport.abort()
        served.close()
        return read, after

    read, left = asyncio.run(taken())
    assert read < 1 << 20
    assert left > 0
