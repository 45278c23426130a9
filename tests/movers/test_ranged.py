"""Large files by several requests at once: whole, in order, bounded, and only where it pays."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path

import pytest

from pilotage.adapters.movers.copies import ranged
from pilotage.adapters.movers.copies.ranged import RangedStream
from pilotage.adapters.movers.http import downloads
from pilotage.adapters.movers.http.http_backend import HttpBackend
from pilotage.ports.moving import Readable, StorageError, WrongFileError
from tests.movers.servers import nginx
from tests.movers.test_http import answer, server
from tests.waiting import wait_for

BLOCK = 10_000
CONTENT = bytes(range(251)) * 4_000


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a million bytes are large, and every server is slow."""
    values = {"LARGE": 10 * BLOCK, "SAMPLE": 4 * BLOCK, "BLOCK": BLOCK, "PAYS": 0.0}
    values |= dict.fromkeys(("FAST", "LOST"), float("inf"))
    for name, value in values.items():
        monkeypatch.setattr(ranged, name, value)
    monkeypatch.setattr(downloads, "PAUSE", 0)


@pytest.fixture(autouse=True)
def _given_back() -> Iterator[None]:
    yield
    wait_for(
        lambda: ranged.spare.take(0) == 0 and ranged.spare._available == ranged.SPARE, "all is given back"
    )


class Parts:
    """Answers with the part of a file that is asked for, and counts how many do so at once."""

    def __init__(self, **headers: str) -> None:
        self.headers = {"ETag": '"one"', **headers}
        self.ranges = True
        self.asked: list[str] = []
        self.most = self._now = 0
        self._lock = threading.Lock()

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        asked = request.headers["Range"]
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.asked.append(asked)
        try:
            self.answer(request, asked)
        finally:
            with self._lock:
                self._now -= 1

    def answer(self, request: BaseHTTPRequestHandler, asked: str | None) -> None:
        same = request.headers["If-Range"] in (None, self.headers["ETag"], self.headers.get("Last_Modified"))
        if not (asked and self.ranges and same):
            answer(request, 200, CONTENT, **self.headers)
            return
        begin, end = asked.removeprefix("bytes=").split("-")
        part = CONTENT[int(begin) : int(end) + 1 if end else None]
        told = f"bytes {begin}-{int(begin) + len(part) - 1}/{len(CONTENT)}"
        answer(request, 206, part, Content_Range=told, **self.headers)


def read(backend: HttpBackend, start: int = 0) -> bytes:
    with backend.read_ranges("file", start, len(CONTENT)) as stream:
        return b"".join(iter(lambda: stream.read(3_333), b""))


@pytest.mark.parametrize("start", [0, 123_456])
def test_a_large_file_comes_whole_and_in_order_by_bounded_requests(start: int) -> None:
    class Together(Parts):
        """Answers the first request, and others once there are several."""

        def answer(self, request: BaseHTTPRequestHandler, asked: str | None) -> None:
            wait_for(lambda: len(self.asked) == 1 or self.most > 1, "several requests at once")
            super().answer(request, asked)

    parts = Together()
    with server(parts) as url:
        assert read(HttpBackend(url, {}), start) == CONTENT[start:]
    assert len(parts.asked) > 40
    assert parts.most <= ranged.MOST
    assert parts.asked[0] == f"bytes={start}-{start + 4 * BLOCK - 1}"


def test_a_real_server_gives_its_parts(roots: dict[str, Path], tmp_path: Path) -> None:
    (roots["north"] / "file").write_bytes(CONTENT)
    with nginx(roots["north"], tmp_path) as address:
        assert read(HttpBackend(f"http://{address}", {})) == CONTENT


@pytest.mark.parametrize(
    ("headers", "several"),
    [
        pytest.param({"ETag": 'W/"one"'}, False, id="a weak tag"),
        pytest.param(
            {"ETag": "", "Last_Modified": formatdate(4 * 10**9, usegmt=True)}, False, id="changed just now"
        ),
        pytest.param(
            {"ETag": "", "Last_Modified": formatdate(10**9, usegmt=True)}, True, id="long unchanged"
        ),
        pytest.param({"ETag": "", "Last_Modified": "yesterday"}, False, id="no date"),
    ],
)
def test_versions_must_be_told_apart(headers: dict[str, str], several: bool) -> None:
    parts = Parts(**headers)
    with server(parts) as url:
        assert read(HttpBackend(url, {})) == CONTENT
    assert (len(parts.asked) > 2) is several


def test_a_server_without_ranges_is_read_by_one_request() -> None:
    parts = Parts()
    parts.ranges = False
    with server(parts) as url:
        assert read(HttpBackend(url, {})) == CONTENT
    assert len(parts.asked) == 1


def test_a_file_that_changes_meanwhile_is_refused() -> None:
    class Changing(Parts):
        def answer(self, request: BaseHTTPRequestHandler, asked: str | None) -> None:
            if len(self.asked) > 10:
                self.headers["ETag"] = '"two"'
            super().answer(request, asked)

    with server(Changing()) as url, pytest.raises(WrongFileError, match="changed while it was read"):
        read(HttpBackend(url, {}))


@pytest.mark.slow
def test_requests_that_are_cut_go_on_where_they_were() -> None:
    class Cutting(Parts):
        def answer(self, request: BaseHTTPRequestHandler, asked: str | None) -> None:
            begin, end = (int(one) for one in (asked or "").removeprefix("bytes=").split("-"))
            request.send_response(206)
            request.send_header("Content-Length", str(end + 1 - begin))
            request.send_header("Content-Range", f"bytes {begin}-{end}/{len(CONTENT)}")
            request.send_header("ETag", '"one"')
            request.end_headers()
            request.wfile.write(CONTENT[begin : end + 1][: BLOCK * 3 // 4])
            request.close_connection = True

    with server(Cutting()) as url:
        assert read(HttpBackend(url, {})) == CONTENT


def test_a_failure_of_one_request_ends_the_file() -> None:
    class Failing(Parts):
        def answer(self, request: BaseHTTPRequestHandler, asked: str | None) -> None:
            if len(self.asked) > 10:
                answer(request, 500)
            else:
                super().answer(request, asked)

    with server(Failing()) as url, pytest.raises(StorageError, match="500"):
        read(HttpBackend(url, {}))


def test_where_another_server_gives_the_bytes_one_request_gives_the_rest() -> None:
    parts = Parts()
    with server(parts) as elsewhere:
        leads_on = lambda request: answer(request, 307, Location=f"{elsewhere}/file")  # noqa: E731
        with server(leads_on) as url:
            assert read(HttpBackend(url, {})) == CONTENT
    assert len(parts.asked) == 2


class Memory:
    """A file in memory, whose parts are opened with a delay."""

    def __init__(self, seconds: Callable[[int, int], float] = lambda _, __: 0.0) -> None:
        self.asked: list[tuple[int, int]] = []
        self._seconds = seconds

    def __call__(self, begin: int, end: int) -> AbstractContextManager[Readable]:
        self.asked.append((begin, end))
        return self._opened(begin, end)

    @contextmanager
    def _opened(self, begin: int, end: int) -> Iterator[Readable]:
        time.sleep(self._seconds(begin, end))
        yield BytesIO(CONTENT[begin:end])

    def stream(self, answered: float = 0.0) -> RangedStream:
        return RangedStream(BytesIO(CONTENT[: ranged.SAMPLE]), self, 0, len(CONTENT), answered)


def test_several_requests_that_gain_nothing_make_room_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged, "PAYS", 1e9)
    memory = Memory()
    with memory.stream() as stream:
        assert b"".join(iter(lambda: stream.read(3_333), b"")) == CONTENT
    assert memory.asked[-1][1] == len(CONTENT)
    assert memory.asked[-1][1] - memory.asked[-1][0] > 40 * BLOCK


def test_a_server_that_is_slow_to_answer_is_asked_once_more_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged, "LOST", ranged.FEW * BLOCK)
    memory = Memory()
    with memory.stream(answered=1000.0) as stream:
        assert b"".join(iter(lambda: stream.read(3_333), b"")) == CONTENT
    assert memory.asked == [(ranged.SAMPLE, len(CONTENT))]


def test_where_no_request_is_to_spare_one_gives_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    taken = ranged.spare.take(ranged.SPARE)
    try:
        with memory.stream() as stream:
            assert b"".join(iter(lambda: stream.read(3_333), b"")) == CONTENT
    finally:
        ranged.spare.give_back(taken)
    assert memory.asked == [(ranged.SAMPLE, len(CONTENT))]


def test_nothing_is_read_far_ahead_of_who_reads() -> None:
    memory = Memory()
    with memory.stream() as stream:
        while len(memory.asked) < ranged.FEW:
            stream.read(1000)
        wait_for(lambda: len(memory.asked) >= 2 * ranged.FEW, "as much is read as there is room for")
        time.sleep(0.05)
        assert len(memory.asked) <= 2 * ranged.MOST + 1


def test_a_part_that_is_shorter_than_it_should_be_is_no_file() -> None:
    class Short(Memory):
        @contextmanager
        def _opened(self, begin: int, end: int) -> Iterator[Readable]:
            yield BytesIO(CONTENT[begin : end - 1])

    with Short().stream() as stream, pytest.raises(StorageError, match="the answer ended 1 bytes before"):
        list(iter(lambda: stream.read(3_333), b""))
