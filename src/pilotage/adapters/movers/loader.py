"""Discover movers in the entry point group ``pilotage.movers``, and choose them by their abilities."""

import logging
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import cast

from pilotage.adapters.movers.processes.processes import WorkerProcesses
from pilotage.adapters.movers.processes.worker import GROUP as MOVERS
from pilotage.adapters.movers.storages import fsspec_backend
from pilotage.adapters.movers.streaming import GROUP as STORAGES
from pilotage.adapters.movers.streaming import hint
from pilotage.model.records.federation import Storage
from pilotage.ports import adapters
from pilotage.ports.moving import Mover, Reader

log = logging.getLogger(__name__)

METHODS = ("start", "poll", "cancel", "scan", "remove", "close")


def installed() -> Mapping[str, EntryPoint]:
    """Return the movers installed on this machine."""
    return adapters.installed(MOVERS)


def known_schemes() -> frozenset[str]:
    """Return URL schemes that a mover of this machine could read, some only with a further package."""
    movers = InstalledMovers(lambda: None)
    return movers.schemes | adapters.installed(STORAGES).keys() | fsspec_backend.REQUIREMENTS.keys()


class InstalledMovers:
    """Every mover of this machine, each made once. ``on_change`` is called when a delivery has ended.

    One that cannot be made is logged and skipped. If several are able to do something, third-party movers
    come first, then those with few URL schemes, then the alphabet decides. With ``processes``, deliveries run
    in worker processes, otherwise in this one.
    """

    def __init__(self, on_change: Callable[[], None], *, processes: bool = False) -> None:
        self._movers = sorted(_usable_movers(on_change, processes=processes), key=_rank)

    @property
    def schemes(self) -> frozenset[str]:
        """Return URL schemes of readable storages."""
        return frozenset().union(*(mover.abilities.reads for mover in self._movers))

    @property
    def writable(self) -> frozenset[str]:
        """Return URL schemes of writable storages."""
        return frozenset().union(*(mover.abilities.writes for mover in self._movers))

    def for_delivery(self, source: str, destination: str) -> Mover:
        """Return the mover for a delivery between two URLs. Raises LookupError if there is none."""
        here, there = _scheme(source), _scheme(destination)
        for mover in self._movers:
            if here in mover.abilities.reads and there in mover.abilities.writes:
                return mover
        if not any(here in mover.abilities.reads for mover in self._movers):
            raise LookupError(f"no mover installed here reads {here}://{hint(here)}")
        raise LookupError(f"no mover installed here writes {there}:// from {here}://{hint(there)}")

    def for_storage(self, storage: Storage) -> Mover:
        """Return the mover that scans and clears a storage. Raises LookupError if there is none."""
        scheme = _scheme(storage.url)
        able = [mover for mover in self._movers if scheme in mover.abilities.reads and mover.abilities.scan]
        for mover in sorted(able, key=lambda mover: not _removes(mover, scheme)):
            return mover
        raise LookupError(f"storage {storage.name}: no mover installed here lists {scheme}://{hint(scheme)}")

    def for_reading(self, storage: Storage) -> Reader:
        """Return the mover that reads and writes single files of a storage.

        Raises LookupError if there is none.
        """
        scheme = _scheme(storage.url)
        for mover in self._movers:
            if mover.abilities.open and scheme in mover.abilities.reads:
                return cast(Reader, mover)
        lacking = f"no mover installed here hands out files of {scheme}://{hint(scheme)}"
        raise LookupError(f"storage {storage.name}: {lacking}")

    def close(self) -> None:
        """Close every mover."""
        for mover in self._movers:
            mover.close()


def _usable_movers(on_change: Callable[[], None], *, processes: bool) -> Iterator[Mover]:
    for name in installed():
        try:
            mover: Mover = adapters.factory(MOVERS, name)(on_change)
            adapters.check_methods(mover, f"mover {name!r}", METHODS)
        except Exception as error:  # an adapter may be foreign code
            log.warning("mover %s is left out: %s", name, error)
        else:
            yield WorkerProcesses(name, mover, on_change) if processes else mover


def _rank(mover: Mover) -> tuple[bool, int, str]:
    abilities = mover.abilities
    # False sorts before True.
    return not abilities.third_party, len(abilities.reads | abilities.writes), abilities.name


def _removes(mover: Mover, scheme: str) -> bool:
    return mover.abilities.remove and scheme in mover.abilities.writes


def _scheme(url: str) -> str:
    return url.partition("://")[0]
