"""SFTP through asyncssh, on a real OpenSSH server."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.movers.contract import violations
from pilotage.adapters.movers.copies.ranged import SPARE, spare
from pilotage.adapters.movers.sftp import ssh_reader
from pilotage.adapters.movers.sftp.sftp_streams import SftpStream
from pilotage.adapters.movers.storages.backend import LinkError, PathEntry, StorageOptionError
from pilotage.adapters.movers.streaming import Streaming
from pilotage.model.records.federation import Storage
from pilotage.ports.moving import Readable, ScanLimits, StorageError, WrongPatternError
from tests.movers.servers import directory_rig, program
from tests.movers.sftp import Sftp, sftp

backends = pytest.importorskip("pilotage.adapters.movers.sftp.sftp_backend", exc_type=ImportError)

pytestmark = pytest.mark.slow

LARGE = bytes(range(256)) * 80_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sftp]:
    with sftp(tmp_path / "ssh") as made:
        yield made


@pytest.mark.parametrize("local", [(), ("north",), ("south",)])
def test_sftp_keeps_the_contract(server: Sftp, tmp_path: Path, local: tuple[str, ...]) -> None:
    roots = {name: tmp_path / name for name in ("north", "south")}
    urls = {
        name: f"file://{root}" if name in local else f"{server.url}{root}" for name, root in roots.items()
    }
    assert violations(Streaming, directory_rig(roots, urls, **server.options)) == []


def test_sftp_keeps_the_contract_at_a_server_without_extensions(tmp_path: Path) -> None:
    with sftp(tmp_path / "ssh", extensions=False) as server:
        roots = {name: tmp_path / name for name in ("north", "south")}
        urls = {name: f"{server.url}{root}" for name, root in roots.items()}
        assert violations(Streaming, directory_rig(roots, urls, **server.options)) == []


def test_reading_goes_on_where_a_connection_was_cut(server: Sftp, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(LARGE)
    backend = backends.SftpBackend(f"{server.url}{tmp_path}", server.options)
    with backend.read("file") as stream:
        read = [stream.read(1 << 20)]
        server.cut()
        read += iter(lambda: stream.read(1 << 20), b"")
    assert b"".join(read) == LARGE


def test_a_file_that_changed_meanwhile_is_not_mixed(server: Sftp, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(LARGE)
    backend = backends.SftpBackend(f"{server.url}{tmp_path}", server.options)
    with backend.read("file") as stream:
        stream.read(1 << 20)
        server.cut()
        (tmp_path / "file").write_bytes(LARGE[:-1])
        with pytest.raises(StorageError, match="file changed while it was read"):
            list(iter(lambda: stream.read(1 << 20), b""))


def test_a_connection_that_is_cut_while_writing_leaves_no_file_of_that_name(
    server: Sftp, tmp_path: Path
) -> None:
    backend = backends.SftpBackend(f"{server.url}{tmp_path}/made", server.options)

    def chunks() -> Iterator[bytes]:
        yield LARGE
        server.cut()
        yield LARGE

    with pytest.raises(Exception, match=r"(?i)connection|pipe"):
        backend.store("file", ".part", chunks(), 2 * len(LARGE))
    assert list((tmp_path / "made").iterdir()) == []
    backend.store("file", ".part", iter([LARGE]), len(LARGE))
    assert (tmp_path / "made/file").read_bytes() == LARGE


def test_patterns_follow_links_within_the_storage_and_name_those_out_of_it(
    server: Sftp, tmp_path: Path
) -> None:
    for name in ("root/real/f", "outside/secret"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"x")
    for name, target in {"near": "real", "one": str(tmp_path / "root/real/f"), "self": "self"}.items():
        (tmp_path / "root" / name).symlink_to(target)
    (tmp_path / "root/away").symlink_to("../outside")
    (tmp_path / "root/nothing").symlink_to("none")
    place = Storage(name="s", site="s", url=f"{server.url}{tmp_path}/root", options=server.options)
    mover = Streaming(lambda: None)
    found = mover.scan(place, "**")
    assert found.paths == {"near/f": "real/f", "one": "real/f"}
    assert [file.name for file in found] == ["near/f", "one", "real/f"]
    assert sorted(found.left_out) == ["away", "nothing", "self"]
    assert "leads out of its storage" in found.left_out["away"]
    with pytest.raises(WrongPatternError, match="'away' cannot be an input"):
        mover.scan(place, "away/*", ScanLimits(refuse_links=True))


def test_links_are_not_followed(server: Sftp, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(b"secret")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "root/link").symlink_to(tmp_path / "outside/file")
    os.mkfifo(tmp_path / "root/pipe")
    (tmp_path / "to-root").symlink_to(tmp_path / "root")
    backend = backends.SftpBackend(f"{server.url}{tmp_path}/to-root", server.options)
    assert dict(backend.entries("")) == {
        "folder": PathEntry("link"),
        "link": PathEntry("link"),
        "pipe": PathEntry("other"),
    }
    for name in ("link", "pipe"):
        with pytest.raises(StorageError, match="is not a plain file"), backend.read(name):
            pass
    with pytest.raises(LinkError), backend.read("folder/file"):
        pass
    with pytest.raises(LinkError):
        list(backend.entries("folder"))
    for path in ("folder/new", "folder/below/new"):
        with pytest.raises(LinkError):
            backend.store(path, ".part", iter([b"x"]), 1)
    with pytest.raises(LinkError):
        backend.delete("folder/file")
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]


def test_a_stranger_s_host_key_and_a_key_that_is_not_accepted_are_said(server: Sftp, tmp_path: Path) -> None:
    stranger = backends.SftpBackend(f"{server.url}{tmp_path}", {**server.options, "known_hosts": "/dev/null"})
    with pytest.raises(StorageError, match=r"the host key of 127\.0\.0\.1 is not in known_hosts"):
        stranger.entry("file")
    refused = backends.SftpBackend(
        f"{server.url}{tmp_path}", {**server.options, "key_file": server.options["key_file"] + "/../host"}
    )
    with pytest.raises((StorageError, OSError)):
        refused.entry("file")


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("sftp://host/path", {"password": "x"}, r"unknown options \['password'\]"),
        ("sftp://host", {}, "no host or path"),
        ("sftp:///path", {}, "no host or path"),
        ("sftp://me:secret@host/path", {}, "no password in a URL"),
    ],
)
def test_what_an_sftp_storage_does_not_take_is_refused(url: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        backends.SftpBackend(url, options)
    assert "secret" not in str(refused.value)
    assert isinstance(refused.value, StorageOptionError) == bool(options)


def test_a_storage_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    storage = Storage(name="s", site="s", url="sftp://127.0.0.1:1/data", options={"ssh_config": "/dev/null"})
    with pytest.raises(StorageError, match="Connect call failed"):
        Streaming(lambda: None).scan(storage, "*")


BIG = bytes(range(256)) * 300_000


def _waited(stream: Any) -> Any:
    """The stream, once the program that reads it has opened the file or said that it cannot."""
    until = time.monotonic() + 30
    while stream._ssh._opening.is_alive():
        assert time.monotonic() < until
        time.sleep(0.01)
    return stream


def _rest(stream: Readable) -> bytes:
    return b"".join(iter(lambda: stream.read(1 << 20), b""))


@pytest.fixture
def near(server: Sftp, tmp_path: Path) -> Any:
    """A backend with a large file, at a server that is near however busy this machine is."""
    program("ssh", "apt-get install openssh-client")
    (tmp_path / "file").write_bytes(BIG)
    return backends.SftpBackend(f"{server.url}{tmp_path}", server.options)


def test_a_large_file_is_read_by_ssh_from_where_the_connection_came_to(near: Any) -> None:
    with near.read_ranges("file", 0, len(BIG)) as opened:
        first = opened.read(1 << 20)
        data = first + _waited(opened).read(1 << 20)
        asked = opened._from
        assert 0 < asked < len(BIG) / 2
        assert data + _rest(opened) == BIG
        assert opened._ssh is None
    with near.read_ranges("file", 5_000_000, len(BIG)) as opened:
        assert _rest(opened) == BIG[5_000_000:]
    assert spare.take(SPARE) == SPARE
    spare.give_back(SPARE)


def test_a_large_file_goes_on_where_ssh_was_cut_or_the_file_grew(
    server: Sftp, near: Any, tmp_path: Path
) -> None:
    with near.read_ranges("file", 0, len(BIG)) as opened:
        read = [_waited(opened).read(1 << 20) for _ in range(60)]
        assert opened._changed_over
        server.cut()
        assert b"".join(read) + _rest(opened) == BIG
    near._without_ssh = 0
    with near.read_ranges("file", 0, len(BIG)) as opened:
        read = [_waited(opened).read(1 << 20) for _ in range(60)]
        assert opened._changed_over
        with (tmp_path / "file").open("ab") as file:
            file.write(b"more")
        assert b"".join(read) + _rest(opened) == BIG + b"more"


def test_without_ssh_or_from_afar_a_large_file_comes_by_the_connection(
    near: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(ssh_reader.Login, "command", lambda _: ["sh", "-c", "echo no way >&2; exit 255"])
    with near.read_ranges("file", 0, len(BIG)) as opened:
        assert _rest(_waited(opened)) == BIG
    assert re.search("is read on without ssh: .*: no way", caplog.text)
    # It is not tried again for a while, nor from afar, nor where it is not installed.
    with near.read_ranges("file", 0, len(BIG)) as opened:
        assert isinstance(opened, SftpStream)
    near._without_ssh = 0
    monkeypatch.setattr(backends, "NEAR", -1)
    with near.read_ranges("file", 0, len(BIG)) as opened:
        assert isinstance(opened, SftpStream)
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with near.read_ranges("file", 0, len(BIG)) as opened:
        assert isinstance(opened, SftpStream)


def test_ssh_reads_nothing_through_a_link_and_no_other_version(near: Any, tmp_path: Path) -> None:
    (tmp_path / "to").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    login = ssh_reader.Login("127.0.0.1", near._port, near._user, near._options, backends.CIPHERS)
    command = login.command()
    assert command
    found = (tmp_path / "file").stat()
    right = (found.st_size, found.st_mtime)
    for path, version, said in (
        (tmp_path / "to/file", right, "a link leads there"),
        (tmp_path / "link", right, "a link leads there"),
        (tmp_path / "file", (right[0] + 1, right[1]), "it has changed"),
        (tmp_path / "nowhere", right, "the server answered 101"),
    ):
        reader = ssh_reader.SshReader(command, str(path), version)
        reader._opening.join()
        with pytest.raises(ssh_reader.SshReaderError, match=said):
            reader.opened()
        reader.close()


def test_a_folder_that_is_not_there_is_never_taken_for_the_root(tmp_path: Path) -> None:
    """The second call failed to fail: it looked below ``/`` of the server."""
    with sftp(tmp_path / "ssh") as server:
        backend = backends.SftpBackend(f"{server.url}{tmp_path}/not/there", server.options)
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                backend.entry("etc/hosts")
