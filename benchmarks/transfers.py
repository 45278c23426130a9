"""One large file by each protocol next to the tool of that protocol, and many third-party copies."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.movers.servers import nginx
from tests.movers.sftp import sftp
from tests.movers.xrootd import xrootd

from pilotage.movers.streaming import Streaming
from pilotage.ports.moving import Delivery, Place

LARGE = 1 << 30
COPIES, COPY_SIZE, AT_ONCE = 200, 1_000_000, 8


def figures() -> dict[str, float]:
    """``large_file_PROTOCOL_ratio``, our rate by the tool's, and ``third_party_copies_per_s``.

    Files are read from memory and written to the disk: the tools' files are told to be there by ``sync``.
    None is deleted before the end, so that nobody writes to what another has just freed.
    """
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    before = os.umask(0)
    try:
        (place / "served").mkdir()
        with (place / "served/large").open("wb") as file:
            for _ in range(LARGE >> 20):
                file.write(os.urandom(1 << 20))
        found = {}
        for name, (url, options, tool) in _sources(place):
            theirs = _seconds(
                place / f"{name}-theirs",
                lambda there, tool=tool: subprocess.run([*tool, there], check=True),  # type: ignore[misc]
            )
            ours = _seconds(
                place / f"{name}-ours",
                lambda there, url=url, options=options: _deliver(url, options, there),  # type: ignore[misc]
            )
            found[f"large_file_{name}_ratio"] = theirs / ours
            found[f"large_file_{name}_mb_per_s"] = LARGE / 1e6 / ours
        return found | {"third_party_copies_per_s": _copies(place)}
    finally:
        os.umask(before)
        shutil.rmtree(place, ignore_errors=True)


Source = tuple[str, Mapping[str, Any], list[str]]


def _sources(place: Path) -> Iterator[tuple[str, Source]]:
    """Where the file can be had: URL, options, and the tool's command but for its last word."""
    served = place / "served"
    yield "local", (f"file://{served}", {}, ["cp", f"{served}/large"])
    (place / "nginx").mkdir()
    with nginx(served, place / "nginx") as address:
        yield "http", (f"http://{address}", {}, ["curl", "-s", f"http://{address}/large", "-o"])
    with sftp(place / "ssh") as server:
        port = server.url.rpartition(":")[2]
        options = ["-q", "-P", port, "-i", server.options["key_file"], "-o", "Ciphers=aes128-gcm@openssh.com"]
        known = ["-o", f"UserKnownHostsFile={server.options['known_hosts']}"]
        path = f"{server.url.removeprefix('sftp://').partition(':')[0]}:{served}/large"
        yield "sftp", (f"{server.url}{served}", server.options, ["scp", *options, *known, path])
    with xrootd(served, place / "xrootd") as root:
        yield "xrootd", (root.url, {}, ["xrdcp", "-f", "-s", f"{root.url}/large"])


def _seconds(there: Path, copy: Callable[[Path], object]) -> float:
    os.sync()  # what was written before would be written meanwhile
    begun = time.perf_counter()
    copy(there)
    subprocess.run(["sync", there], check=True)
    return time.perf_counter() - begun


def _deliver(url: str, options: Mapping[str, Any], there: Path) -> None:
    Streaming(lambda: None).deliver(
        _order(1, LARGE, url, f"file://{there.parent}", "large", there.name, options), _ignored
    )


def _copies(place: Path) -> float:
    """Third-party copies a second between two XRootD servers by HTTP, 8 at a time."""
    with ExitStack() as stack:
        for name in ("a", "b"):
            (place / name).mkdir()
        for number in range(COPIES):
            (place / f"a/{number}").write_bytes(os.urandom(COPY_SIZE))
        source, target = (stack.enter_context(xrootd(place / one, place / f"of-{one}")).http for one in "ab")
        mover = Streaming(lambda: None)
        orders = [_order(n, COPY_SIZE, source, target, str(n), str(n), {}) for n in range(COPIES)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            begun = time.perf_counter()
            list(pool.map(lambda order: mover.deliver(order, _ignored), orders))
            return COPIES / (time.perf_counter() - begun)


def _order(
    number: int, size: int, source: str, target: str, path: str, to: str, options: Mapping[str, Any]
) -> Delivery:
    return Delivery(
        transfer=number,
        attempt=1,
        file=path,
        size=size,
        checksum="",
        source=Place(url=source, path=path, options=options),
        destination=Place(url=target, path=to),
    )


def _ignored(_: int) -> None:
    """Progress that nobody asks for."""
