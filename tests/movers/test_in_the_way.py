"""Names in the way of a file, at real servers: they are its own fault, and make no storage rest (F4)."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.movers.streaming import Streaming
from pilotage.ports.moving import Delivery, DeliveryFailed, Place
from tests.movers.servers import nginx
from tests.movers.sftp import sftp
from tests.movers.xrootd import xrootd

CONTENT = b"x" * 1000
Served = tuple[str, dict[str, Any]]


@contextmanager
def served(kind: str, root: Path, place: Path) -> Iterator[Served]:
    """Serve a directory; URL and options of the storage that it is."""
    if kind == "sftp":
        pytest.importorskip("asyncssh", reason="asyncssh is not installed: pip install 'pilotage[sftp]'")
        with sftp(place) as ssh:
            yield f"{ssh.url}{root}", ssh.options
    elif kind == "root":
        pytest.importorskip("XRootD", reason="XRootD is not installed: pip install 'pilotage[xrootd]'")
        with xrootd(root, place) as xrd:
            yield xrd.url, {}
    elif kind == "http":
        place.mkdir()
        with nginx(root.parent, place) as address:
            yield f"http://{address}/{root.name}", {}
    else:
        yield f"file://{root}", {}


def deliver(source: Place, destination: Place) -> DeliveryFailed:
    """Fail to deliver a file between two places."""
    checksum = f"adler32:{zlib.adler32(CONTENT):08x}"
    order = Delivery(
        transfer=1,
        attempt=1,
        file="file",
        size=len(CONTENT),
        checksum=checksum,
        source=source,
        destination=destination,
    )
    with pytest.raises(DeliveryFailed) as error:
        Streaming(lambda: None).deliver(order, lambda _: None)
    return error.value


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "sftp", "root", "http"])
def test_f4_a_name_in_the_way_is_the_files_fault(kind: str, roots: dict[str, Path], tmp_path: Path) -> None:
    root, place = roots["south"], tmp_path / "server"
    (root / "plain").write_bytes(b"y")
    (root / "folder").mkdir()
    (roots["north"] / "file").write_bytes(CONTENT)
    here = Place(url=f"file://{roots['north']}", path="file")
    with served(kind, root, place) as (url, options):
        for path in ("plain/file", "plain/below/file", "folder"):
            there = Place(url=url, path=path, options=options)
            written, read = deliver(here, there), deliver(there, Place(url=here.url, path="new"))
            assert (written.fault, read.fault) == ("file", "file"), (path, written, read)
    assert sorted(path.name for path in root.rglob("*")) == ["folder", "plain"]
