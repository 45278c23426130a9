"""Files of this machine in the catalogue of a real server: uploaded, read by jobs, and broken off."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pilotage.client import AsyncClient, Client, Conflict, NotFound, Refused
from pilotage.client.output_files import Digest
from pilotage.settings import Settings
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

CONTENT = os.urandom(3 << 20)


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    return path


def left(live: Client) -> list[Path]:
    """Unfinished and unregistered files of uploads at the storage."""
    (storage,) = [one for one in live.federation()["storages"] if one["url"].startswith("file://")]
    root = Path(urlsplit(storage["url"]).path)
    known = {
        Path(urlsplit(replica["url"]).path) for file in live.files(limit=1000) for replica in file["replicas"]
    }
    return [path for path in (root / ".uploads").rglob("*") if path.is_file() and path not in known]


def test_an_uploaded_file_is_an_input_of_a_job(live: Client, local: Path, tmp_path: Path) -> None:
    steps: list[int] = []
    first = live.upload(local, "uploads/data.bin", advance=steps.append)
    assert (first["new"], first["size"], sum(steps)) == (True, len(CONTENT), len(CONTENT))
    assert sum(size for size in steps if size > 0) == 2 * len(CONTENT), "read for its checksum, and sent"
    assert live.upload(local, "uploads/data.bin")["new"] is False
    command = ["sh", "-c", "sha256sum inputs/uploads/data.bin > sum"]
    task = live.submit(name="sum", command=command, inputs=[{"glob": "uploads/*"}], outputs=["sum"])
    task.wait(120).check()
    digest = Digest("sha256:")
    digest.add(CONTENT)
    text = task.fetch(tmp_path).files[0].place.path.read_text()
    assert text.split()[0] == str(digest).partition(":")[2]
    local.write_bytes(b"other")
    with pytest.raises(Conflict, match="is known with"):
        live.upload(local, "uploads/data.bin")
    assert live.upload(local, "uploads/data.bin", replace=True)["new"] is True
    with pytest.raises(Refused, match="names are relative paths"):
        live.upload(local, "../data.bin")


def test_the_asynchronous_client_and_the_command_upload_too(
    site: Settings, local: Path, live: Client
) -> None:
    async def run() -> bool:
        async with AsyncClient(settings=site) as client:
            return bool((await client.upload(local, "uploads/async"))["new"])

    assert asyncio.run(run())
    environment = {**os.environ, "PILOTAGE_HOME": str(site.home), "PILOTAGE_URL": site.url}
    command = [sys.executable, "-m", "pilotage.cli", "files", "upload", str(local), "uploads/async"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "is there already, with the same bytes: at" in done.stdout
    command[-1] = "uploads/command"
    done = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, check=True)
    assert '"new": true' in done.stdout
    missing = subprocess.run(
        [*command[:-2], "/nowhere", "x"], env=environment, capture_output=True, text=True, check=False
    )
    assert (missing.returncode, "there is no such file" in missing.stderr) == (2, True)


def test_a_file_that_changes_while_it_is_sent_is_not_stored(live: Client, local: Path) -> None:
    def check(changed: bytes, message: str) -> None:
        read: list[int] = []

        def change(size: int) -> None:
            read.append(size)
            if sum(read) == 0:
                local.write_bytes(changed)

        local.write_bytes(CONTENT)
        with pytest.raises(Refused, match=message):
            live.upload(local, "uploads/changing", advance=change)

    check(CONTENT[:-1], "became shorter")
    check(CONTENT[::-1], "what was sent has checksum")
    with pytest.raises(NotFound):
        live.file("uploads/changing")
    wait_for(lambda: not left(live), "nothing is left")


def sent(site: Settings, announced: int, body: bytes) -> socket.socket:
    """A connection that announced a body, and sent some of it."""
    url = urlsplit(site.url)
    assert url.hostname
    assert url.port
    connection = socket.create_connection((url.hostname, url.port), timeout=30)
    query = f"file=uploads/lie&checksum=sha256:{'a' * 64}"
    head = (
        f"PUT /api/v1/files/content?{query} HTTP/1.1\r\nHost: {url.netloc}\r\n"
        f"Authorization: Bearer {site.token}\r\nContent-Length: {announced}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def test_a_connection_that_breaks_or_announces_another_size_leaves_nothing(
    site: Settings, live: Client
) -> None:
    with sent(site, 10**6, b"x" * 1000):
        wait_for(lambda: left(live), "its first bytes are written")
        assert [file["file"] for file in live.files(match="uploads/lie")] == []
    wait_for(lambda: not left(live), "they go with the connection")
    with sent(site, 10, b"x" * 1000) as longer:
        assert b" 4" in longer.recv(4096).split(b"\r\n")[0]
    wait_for(lambda: not left(live), "they go, too")
    with sent(site, 10**13, b"x") as larger:
        assert b" 413 " in larger.recv(4096).split(b"\r\n")[0]
    assert not left(live)


def test_many_slow_uploads_leave_room_for_other_requests(site: Settings, live: Client) -> None:
    slow = [sent(site, 10**6, b"x") for _ in range(30)]
    try:
        began = time.monotonic()
        assert live.tasks(limit=1) is not None
        assert time.monotonic() - began < 10
    finally:
        for connection in slow:
            connection.close()
    wait_for(lambda: not left(live), "nothing is left")
