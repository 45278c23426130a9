"""XRootD by root://, between real servers."""

import zlib
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from pilotage.adapters.movers.contract import ODD_NAMES, violations
from pilotage.adapters.movers.copies.third_party import CannotFetch
from pilotage.adapters.movers.storages.backend import StorageOptionError
from pilotage.adapters.movers.streaming import Streaming
from pilotage.agent.files.xrootd import access_methods
from pilotage.ports.moving import Delivery, Place, StorageError
from tests.movers.servers import directory_rig
from tests.movers.xrootd import XRootD, xrootd

backends = pytest.importorskip("pilotage.adapters.movers.storages.xrootd_backend", exc_type=ImportError)

pytestmark = pytest.mark.slow
LARGE = bytes(range(256)) * 80_000
TOKEN = "a-secret/token=="


@pytest.fixture
def north(roots: dict[str, Path], tmp_path: Path) -> Iterator[XRootD]:
    with xrootd(roots["north"], tmp_path / "a") as made:
        yield made


@pytest.fixture
def south(roots: dict[str, Path], tmp_path: Path) -> Iterator[XRootD]:
    with xrootd(roots["south"], tmp_path / "b") as made:
        yield made


@pytest.mark.parametrize("local", [(), ("north",), ("south",)])
def test_xrootd_keeps_the_contract(
    roots: dict[str, Path], north: XRootD, south: XRootD, local: tuple[str, ...]
) -> None:
    served = {"north": north.url, "south": south.url}
    urls = {name: f"file://{root}" if name in local else served[name] for name, root in roots.items()}
    assert violations(Streaming, replace(directory_rig(roots, urls), not_held=r"\?")) == []


def streamed(*_: object) -> None:
    raise AssertionError("the bytes pass through this machine")


def test_large_files_are_copied_by_the_servers_and_small_ones_by_us(
    roots: dict[str, Path], north: XRootD, south: XRootD, monkeypatch: pytest.MonkeyPatch
) -> None:
    (roots["north"] / "file").write_bytes(LARGE)
    source, target = (backends.XRootDBackend(server.url, {}) for server in (north, south))
    with pytest.raises(CannotFetch):
        target.fetch(source, "file", "draft", len(LARGE), lambda _: None)
    monkeypatch.setattr(backends, "THIRD_PARTY_FROM", len(LARGE))
    monkeypatch.setattr(backends.XRootDBackend, "store", streamed)
    seen: list[int] = []
    order = Delivery(
        transfer=1,
        attempt=1,
        file="file",
        size=len(LARGE),
        checksum=f"adler32:{zlib.adler32(LARGE):08x}",
        source=Place(url=north.url, path="file"),
        destination=Place(url=south.url, path="made/file"),
    )
    assert Streaming(lambda: None).deliver(order, seen.append).checksum == order.checksum
    assert (roots["south"] / "made/file").read_bytes() == LARGE
    assert [path.name for path in (roots["south"] / "made").iterdir()] == ["file"]
    assert seen[-1] == len(LARGE)


def test_a_third_party_copy_that_nobody_wants_any_more_ends(
    roots: dict[str, Path], north: XRootD, south: XRootD, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (roots["north"] / "file").open("wb") as file:
        file.truncate(3 << 30)
    source, target = (backends.XRootDBackend(server.url, {}) for server in (north, south))

    def unwanted(_: int) -> None:
        raise KeyError("unwanted")

    with pytest.raises(KeyError, match="unwanted"):
        target.fetch(source, "file", "draft", 3 << 30, unwanted)


def test_a_token_is_in_no_error(north: XRootD, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    backend = backends.XRootDBackend(north.url, {"token_file": str(tmp_path / "token")})
    assert "token" in backend.url("file")
    errors = []
    for call in (
        lambda: backend.entry("none"),
        lambda: backend.delete("none"),
        lambda: list(backend.entries("none")),
        lambda: backend.rename("none", "other"),
        lambda: backend.read("none").__enter__(),
    ):
        with pytest.raises((StorageError, FileNotFoundError)) as failed:
            call()
        errors.append(f"{failed.value!r}")
    assert not [error for error in errors if "a-secret" in error or "authz" in error], errors


def test_what_an_xrootd_storage_does_not_take_is_refused() -> None:
    with pytest.raises(StorageOptionError, match=r"unknown options \['token'\]; known are .*'token_file'\]"):
        backends.XRootDBackend("root://host//data", {"token": "x"})
    with pytest.raises(ValueError, match="has no host"):
        backends.XRootDBackend("root:///data", {})


def test_a_redirector_leads_to_its_data_servers(
    roots: dict[str, Path], north: XRootD, tmp_path: Path
) -> None:
    to = f"xrootd.redirect 127.0.0.1:{north.port}"
    leads_on = f"{to} all\n{to} /\n"  # calls about names, and opened files
    with xrootd(roots["south"], tmp_path / "redirector", leads_on) as redirector:
        (tmp_path / "token").write_text(TOKEN)
        backend = backends.XRootDBackend(f"{redirector.url}/", {"token_file": str(tmp_path / "token")})
        backend.store("made/file", ".part", [LARGE[:1000], LARGE[1000:]], len(LARGE))
        with backend.read("made/file") as stream:
            assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == LARGE
    assert (roots["north"] / "made/file").read_bytes() == LARGE
    assert not (roots["south"] / "made").exists()


def test_a_file_is_never_taken_for_a_list_of_addresses(roots: dict[str, Path], north: XRootD) -> None:
    listing = b'<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="x"><url>file:///etc/passwd</url></file></metalink>'
    (roots["north"] / "list.meta4").write_bytes(listing)
    with backends.XRootDBackend(north.url, {}).read("list.meta4") as stream:
        assert stream.read(1 << 20) == listing


def test_agents_read_and_write_odd_names_by_xrdcp(roots: dict[str, Path], north: XRootD) -> None:
    """All but those with ``?``, which ends a name: the server refuses them in words."""
    xrdcp = access_methods(north.url)["xrdcp"]
    for name in ODD_NAMES:
        if "?" in name:
            with pytest.raises(FileNotFoundError, match="hold no \\?"):
                xrdcp.read(name)
            with pytest.raises(FileNotFoundError, match="hold no \\?"):
                xrdcp.write(name, BytesIO(b"x"))
            continue
        xrdcp.write(name, BytesIO(name.encode()))
        assert (roots["north"] / name).read_bytes() == name.encode()
        with xrdcp.read(name) as stream:
            assert stream.read() == name.encode()
