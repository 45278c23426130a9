"""The promises of movers, as one function that authors of movers call in their tests."""

import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from glob import escape

from pilotage.model.records.federation import Storage
from pilotage.model.values.paths import COPIES
from pilotage.ports.moving import Delivery, DeliveryStatus, Mover, Place, StorageError

CONTENT = bytes(range(256)) * 12_000
NAME = "contract/file"
SCRATCH = ".scratch/contract/1.1"

ODD_NAMES = (
    "two words.txt",
    " blank at the start",
    "blank at the end ",
    "Pr\u00fcfung (1).txt",
    "Pru\u0308fung (1).txt",
    "\u65e5\u672c\u8a9e \U0001f600.txt",
    "100%.txt",
    "100%25%2f.txt",
    "C#.txt",
    "a+b.txt",
    "R&D.txt",
    "why?.txt",
    "why?x=1&y=2#z.txt",
    'it\'s "quoted".txt',
    "a,b;c.txt",
    "set[1].txt",
    "star*.txt",
    ".hidden",
    "..two dots",
    "-rf",
    "~",
    "$HOME `id`.txt",
    "back\\slash.txt",
    "a:b@c=d!e.txt",
    "{braces}|<tag>^.txt",
    "folder (a)/data.zarr/.zarray",
)
"""Names of files as people have them. A mover takes all that its servers can hold."""


@dataclass(frozen=True, kw_only=True)
class Rig:
    """Two empty storages, and direct access to them that bypasses the mover.

    ``put`` writes a file below a storage. ``read`` returns a file's bytes, or None if it does not exist.
    ``names`` returns all paths of files below a storage. ``not_held`` is a regular expression of names that
    these storages cannot hold: a mover refuses them. ``lists_hidden`` is false for servers that leave names
    with a leading dot out of their listings.
    """

    source: Storage
    destination: Storage
    put: Callable[[Storage, str, bytes], None]
    read: Callable[[Storage, str], bytes | None]
    names: Callable[[Storage], list[str]]
    not_held: str = ""
    lists_hidden: bool = True


def violations(make: Callable[[Callable[[], None]], Mover], rig: Rig, patience: float = 60) -> list[str]:
    """Return the promises that a mover breaks; empty if it keeps them all.

    ``make`` is the object behind the mover's entry point. A delivery that has not ended after ``patience`` s
    counts as one that never does.
    """
    trial = _Trial(make, rig, patience)
    checks = [_abilities, _unknown, _whole, _again, _replaced, _refused, _scratch, _paths, _odd_names]
    if trial.mover.abilities.scan:
        checks += [_scan, _scan_odd_names]
    if trial.mover.abilities.remove:
        checks.append(_remove)
    return [fault for check in (*checks, _close) for fault in _run_check(check, trial)]


def _run_check(check: Callable[["_Trial"], Iterator[str]], trial: "_Trial") -> Iterator[str]:
    try:
        yield from check(trial)
    except Exception as error:  # a mover may be foreign code
        yield f"{check.__name__.strip('_')}: it raises {error!r}"


class _Trial:
    """A mover under test, with its rig."""

    def __init__(self, make: Callable[[Callable[[], None]], Mover], rig: Rig, patience: float) -> None:
        self.changed = threading.Event()
        self.mover = make(self.changed.set)
        self.rig = rig
        self.patience = patience
        self._transfers = 0

    def delivery(self, content: bytes = CONTENT, path: str = NAME, source: str = NAME) -> Delivery:
        """Return an order for a new transfer, with the size and checksum of ``content``."""
        self._transfers += 1
        here, there = self.rig.source, self.rig.destination
        return Delivery(
            transfer=self._transfers,
            attempt=1,
            file=path,
            size=len(content),
            checksum=_adler32(content),
            source=Place(url=here.url, path=source, options=here.options),
            destination=Place(url=there.url, path=path, options=there.options),
        )

    def deliver(self, delivery: Delivery) -> DeliveryStatus:
        """Run one delivery to its end. One that does not even start has failed."""
        self.changed.clear()
        (started,) = self.mover.start([delivery])
        if started.error:
            return DeliveryStatus(state="failed", error=started.error)
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            status = self.mover.poll([started.reference])[started.reference]
            if status.state in ("delivered", "failed"):
                return status
            time.sleep(0.02)  # not for a change: once set, that stays, and a wait for it would spin
        return DeliveryStatus(state="moving", error="it does not end")

    def arrived(self, path: str = NAME) -> bytes | None:
        return self.rig.read(self.rig.destination, path)


def _adler32(content: bytes) -> str:
    return f"adler32:{zlib.adler32(content):08x}"


def _abilities(trial: _Trial) -> Iterator[str]:
    stated = trial.mover.abilities
    for url, schemes, verb in (
        (trial.rig.source.url, stated.reads, "reads"),
        (trial.rig.destination.url, stated.writes, "writes"),
    ):
        scheme = url.partition("://")[0]
        if scheme not in schemes:
            yield f"abilities: {verb} has no {scheme}"
    if not stated.name:
        yield "abilities: the name is empty"


def _unknown(trial: _Trial) -> Iterator[str]:
    mover = trial.mover
    if list(mover.start([])) or dict(mover.poll([])):
        yield "nothing asked, something answered"
    mover.cancel([])
    mover.cancel(["nobody's"])
    statuses = mover.poll(["nobody's"])
    if statuses.keys() != {"nobody's"} or statuses["nobody's"].state != "unknown":
        yield "a reference that it never gave is not unknown"


def _whole(trial: _Trial) -> Iterator[str]:
    rig = trial.rig
    rig.put(rig.source, NAME, CONTENT)
    status = trial.deliver(trial.delivery())
    if status.state != "delivered" or trial.arrived() != CONTENT:
        yield f"a file does not arrive: {status.state}, {status.error}"
    if status.bytes != len(CONTENT):
        yield f"a delivery of {len(CONTENT)} bytes counts {status.bytes}"
    if status.checksum not in ("", _adler32(CONTENT)):
        yield f"the checksum of what was delivered is said to be {status.checksum}"
    if rig.read(rig.source, NAME) != CONTENT:
        yield "a source that is not scratch is changed"
    if (names := rig.names(rig.destination)) != [NAME]:
        yield f"besides the file there is something at the destination: {names}"
    if not trial.changed.wait(trial.patience):
        yield "no call reports the end of a delivery"
    references = [answer.reference for answer in trial.mover.start([trial.delivery(), trial.delivery()])]
    if len(set(references)) != 2 or "" in references:
        yield f"two deliveries have the references {references}"
    trial.mover.cancel(references)


def _again(trial: _Trial) -> Iterator[str]:
    delivery = trial.delivery()
    first, second = trial.deliver(delivery), trial.deliver(replace(delivery, attempt=2))
    if (first.state, second.state, trial.arrived()) != ("delivered", "delivered", CONTENT):
        yield f"a file that is there and right does not count as delivered: {first.error or second.error}"


def _replaced(trial: _Trial) -> Iterator[str]:
    rig = trial.rig
    rig.put(rig.destination, NAME, CONTENT[::-1])
    if trial.deliver(trial.delivery()).state != "delivered" or trial.arrived() != CONTENT:
        yield "a file of other content at the destination is not replaced"


def _refused(trial: _Trial) -> Iterator[str]:
    good = trial.delivery(path="contract/refused")
    cases = {
        "of another size": replace(good, size=good.size + 1),
        "of a smaller size": replace(good, size=good.size - 1),
        "of another checksum": replace(good, checksum="adler32:00000001"),
        "that is not there": replace(good, source=replace(good.source, path="contract/none")),
    }
    for fault, delivery in cases.items():
        status = trial.deliver(delivery)
        if status.state != "failed" or not status.error:
            yield f"a file {fault} does not fail with an error: {status.state}"
        if trial.arrived("contract/refused") is not None:
            yield f"a file {fault} is at the destination"
        for storage in (trial.rig.source, trial.rig.destination):
            secrets = [
                key for key, value in storage.options.items() if _is_secret(value) and value in status.error
            ]
            if secrets:
                yield f"the error for a file {fault} shows the option {secrets[0]}"
    if (names := trial.rig.names(trial.rig.destination)) != [NAME]:
        yield f"failed deliveries leave something at the destination: {names}"


def _is_secret(value: object) -> bool:
    return isinstance(value, str) and len(value) >= 8


def _scratch(trial: _Trial) -> Iterator[str]:
    rig = trial.rig
    for name in ("out", "log"):
        rig.put(rig.source, f"{SCRATCH}/{name}", CONTENT)
    delivery = replace(trial.delivery(path="contract/out", source=f"{SCRATCH}/out"), scratch=True)
    status = trial.deliver(delivery)
    if status.state != "delivered" or trial.arrived("contract/out") != CONTENT:
        yield f"a file of the scratch area does not arrive: {status.error}"
    if rig.read(rig.source, f"{SCRATCH}/out") is not None:
        yield "a file that was delivered from the scratch area is still there"
    if rig.read(rig.source, f"{SCRATCH}/log") != CONTENT:
        yield "a file of the scratch area that was not delivered is gone"
    if (again := trial.deliver(replace(delivery, attempt=2))).state != "delivered":
        yield f"a delivery from the scratch area cannot be tried again after its end: {again.error}"


def _paths(trial: _Trial) -> Iterator[str]:
    for path in ("../outside", "contract/../../outside", "/outside", "contract//file", ""):
        good = trial.delivery()
        cases = {
            "read": replace(good, source=replace(good.source, path=path), size=1, checksum=""),
            "written": replace(good, destination=replace(good.destination, path=path)),
        }
        for verb, delivery in cases.items():
            if trial.deliver(delivery).state != "failed":
                yield f"{path!r} is {verb}, which is no path below a storage"


def _odd_names(trial: _Trial) -> Iterator[str]:
    rig = trial.rig
    for name in ODD_NAMES:
        path, content = f"odd/{name}", name.encode()
        if is_storable := f"odd/{name}" in _storable_names(rig):
            rig.put(rig.source, path, content)
        status = trial.deliver(trial.delivery(content, path, path))
        if is_storable and (status.state, trial.arrived(path)) != ("delivered", content):
            yield f"{path!r} does not arrive: {status.state}, {status.error}"
        if not is_storable and (status.state != "failed" or not status.error):
            yield f"{path!r}, which cannot be held, is not refused: {status.state}"
    arrived = {path for path in rig.names(rig.destination) if path.startswith("odd/")}
    if wrong := sorted(arrived ^ _storable_names(rig)):
        yield f"with odd names there is something else at the destination: {wrong}"


def _storable_names(rig: Rig) -> set[str]:
    return {f"odd/{name}" for name in ODD_NAMES if not (rig.not_held and re.search(rig.not_held, name))}


def _scan_odd_names(trial: _Trial) -> Iterator[str]:
    rig = trial.rig
    sizes = {file.name: file.size for file in trial.mover.scan(rig.source, "odd/**")}
    listed = {name for name in _storable_names(rig) if rig.lists_hidden or "/." not in name}
    if sizes != {name: len(name.removeprefix("odd/").encode()) for name in listed}:
        yield f"odd/** finds, or does not find, {sorted(sizes.keys() ^ listed)}"
    for name in sorted(_storable_names(rig)):
        if [file.name for file in trial.mover.scan(rig.source, escape(name))] != [name]:
            yield f"{name!r} is not found by its name"


def _scan(trial: _Trial) -> Iterator[str]:
    rig, mover = trial.rig, trial.mover
    for name in ("scanned/b", "scanned/a", "scanned/.hidden", "scanned/below/c"):
        rig.put(rig.source, name, name.encode())
    files = mover.scan(rig.source, "scanned/*")
    if [file.name for file in files] != ["scanned/.hidden"] * rig.lists_hidden + ["scanned/a", "scanned/b"]:
        yield f"scanned/* finds {[file.name for file in files]}"
    for file in files:
        content = file.name.encode()
        if (file.size, file.replicas) != (len(content), (rig.source.name,)):
            yield f"{file.name} is found with {file.size} bytes at {file.replicas}"
        if file.checksum not in ("", _adler32(content)):
            yield f"{file.name} is found with the checksum {file.checksum}"
    if mover.scan(rig.source, "none*"):
        yield "none* finds something"
    if not _raises(lambda: mover.scan(rig.source, "../*")):
        yield "a pattern that leaves the storage is no StorageError"


def _remove(trial: _Trial) -> Iterator[str]:
    storage, mover = trial.rig.destination, trial.mover
    for name in (f"{SCRATCH}/a", f"{SCRATCH}/b/c", f"{SCRATCH}0/kept"):
        trial.rig.put(storage, name, b"x")
    before = set(trial.rig.names(storage))
    for _ in range(2):
        mover.remove(storage, SCRATCH)
    if before - set(trial.rig.names(storage)) != {f"{SCRATCH}/a", f"{SCRATCH}/b/c"}:
        yield f"removing {SCRATCH} leaves {trial.rig.names(storage)}"
    for prefix in ("contract", "", ".scratch", ".scratch/../contract"):
        if not _raises(lambda prefix=prefix: mover.remove(storage, prefix)):  # type: ignore[misc]
            yield f"removing {prefix!r}, which is no folder of the scratch area, is no StorageError"
    for name in (f"{COPIES}/here/s/one", f"{COPIES}/here/s/two"):
        trial.rig.put(storage, name, b"x")
    for _ in range(2):
        mover.remove(storage, f"{COPIES}/here/s/one")
    if [name for name in trial.rig.names(storage) if name.startswith(COPIES)] != [f"{COPIES}/here/s/two"]:
        yield f"removing one copy leaves {trial.rig.names(storage)}"
    if trial.arrived() != CONTENT:
        yield "removing a scratch area removes a file outside of it"


def _raises(call: Callable[[], object]) -> bool:
    try:
        call()
    except StorageError:
        return True
    return False


def _close(trial: _Trial) -> Iterator[str]:
    trial.mover.close()
    (started,) = trial.mover.start([trial.delivery()])
    if not started.error:
        yield "a closed mover starts deliveries"
