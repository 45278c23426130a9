"""Checks of storages and batch systems, as the server reaches them."""

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pilotage.server.doctor.checks import Finding, check, cited, warning
from pilotage.server.doctor.installation import Installation

if TYPE_CHECKING:
    from pilotage.adapters.movers.loader import InstalledMovers
    from pilotage.model.records.federation import Queue, Storage

LEAST_FREE = 1e9
"""Free bytes of a storage below which an operator should know."""

PROBE = b"written by pilotage doctor\n"


def _storages(installation: Installation) -> "Mapping[str, Storage]":
    return {storage.name: storage for storage in installation.federation.storages}


@check("storage", each=_storages)
def storage_works(_: Installation, storage: "Storage") -> Iterator[Finding]:
    """Write, read and remove a small file in the scratch area; list, where writing is forbidden."""
    from pilotage.adapters.movers.loader import InstalledMovers
    from pilotage.ports.moving import StorageError

    movers = InstalledMovers(lambda: None)
    scheme = storage.url.partition("://")[0]
    try:
        if _is_written(storage) and scheme in movers.writable:
            _write_and_read(movers, storage)
        elif not {"read_lan", "read_wan"} <= {*storage.blacklisted}:
            # A name without a pattern: this lists little, however full the storage is.
            movers.for_storage(storage).scan(storage, f"pilotage-doctor-{os.getpid()}")
    except LookupError as error:
        yield warning(str(error), "this machine does not move its files; another server may", "see above")
    except (StorageError, OSError, ValueError) as error:
        yield Finding(
            what=cited(error),
            why="inputs cannot be read there, or outputs stay at other places",
            mend=f"mend its URL, credentials or rights; until then: pilotage storages close {storage.name} "
            '--because "it does not work"',
        )
    finally:
        movers.close()


def _is_written(storage: "Storage") -> bool:
    return not {"write_lan", "write_wan"} <= {*storage.blacklisted}


def _write_and_read(movers: "InstalledMovers", storage: "Storage") -> None:
    """Raises StorageError, LookupError, OSError and ValueError."""
    from pilotage.model.values.paths import SCRATCH
    from pilotage.ports.moving import StorageError

    reader = movers.for_reading(storage)
    # Beside the folders of federations: such a one stays, once it is there.
    folder = f"{SCRATCH}/doctor-{os.getpid()}"
    try:
        reader.store(storage, f"{folder}/probe", io.BytesIO(PROBE), len(PROBE))
        with reader.open(storage, f"{folder}/probe") as stream:
            content = stream.read(len(PROBE) + 1)
    except BaseException:
        # What failed first is what an operator must read.
        with suppress(StorageError, LookupError, OSError):
            movers.for_storage(storage).remove(storage, folder)
        raise
    movers.for_storage(storage).remove(storage, folder)
    if content != PROBE:
        raise StorageError(f"{storage.url} gives back {len(content)} bytes that were never written")


@check("storage space", each=_storages)
def storage_space(_: Installation, storage: "Storage") -> Iterator[Finding]:
    """Ask a storage for its free space."""
    from pilotage.adapters.movers.loader import InstalledMovers
    from pilotage.ports.moving import SpaceTeller, StorageError

    movers = InstalledMovers(lambda: None)
    try:
        mover = movers.for_storage(storage)
        space = mover.space(storage) if isinstance(mover, SpaceTeller) else None
    except (LookupError, StorageError, OSError, ValueError):
        return  # the check of the storage itself says so
    finally:
        movers.close()
    if space is not None and space.free < LEAST_FREE and _is_written(storage):
        yield warning(
            f"{space.free / 1e9:.1f} GB are free",
            "queues there take no jobs, and outputs cannot be delivered",
            f"free some; or: pilotage storages drain {storage.name} --because full",
        )


class BatchEntrance(NamedTuple):
    """A way into a batch system: a queue, the server of its computing element (empty: the only one), and the
    credential (empty: the common one)."""

    queue: "Queue"
    server: str
    credential: str = ""


def _entrances(installation: Installation) -> Mapping[str, BatchEntrance]:
    """Return each different way into a batch system once, by its first queue."""
    entrances: dict[str, BatchEntrance] = {}
    keys: list[object] = []
    for queue in installation.federation.queues:
        if (element := queue.computing_element) is None or queue.status == "offline":
            continue
        servers = [server.name for server in element.servers] or [""]
        owners = [(servers[0], credential.name) for credential in element.credentials]
        for server, credential in [*((server, "") for server in servers), *owners]:
            variant = element.at(server, credential)
            key = (element.kind, variant.options, variant.credentials)
            if key not in keys:
                keys.append(key)
                name = f"{queue.name} at {server}" if server else queue.name
                name += f" for {credential}" if credential else ""
                entrances[name] = BatchEntrance(queue, server, credential)
    return entrances


@check("batch system", each=_entrances)
def batch_system(_: Installation, entrance: BatchEntrance) -> Iterator[Finding]:
    """Ask a batch system for its load, which changes nothing there."""
    from pilotage.adapters.computing.loader import SharedLoader
    from pilotage.ports.adapters import AdapterError

    element = entrance.queue.computing_element
    assert element is not None
    try:
        capacity = SharedLoader()(element.at(entrance.server, entrance.credential)).capacity()
    except AdapterError as error:
        yield warning(str(error), "this machine starts no pilots there", "pip install what it names, here")
        return
    except (OSError, ValueError) as error:
        yield Finding(
            what=cited(f"the batch system does not answer: {error}"),
            why=f"no pilot starts there, and jobs of {entrance.queue.name} wait",
            mend=f"mend its options or its credentials; then: pilotage queues test {entrance.queue.name}",
        )
        return
    if capacity.slots == 0:
        yield warning(
            "the batch system has no slots now",
            "pilots wait there until it has some",
            f"pilotage queues drain {entrance.queue.name} --because 'no slots'",
        )
