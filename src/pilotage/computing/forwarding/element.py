"""The adapter of forwarding sites: it starts a forwarder for each pilot, and reads the other's reasons."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotage.computing.agent_file import agent_options
from pilotage.computing.options import LocalPath, Word, parse
from pilotage.computing.process import Process
from pilotage.computing.web_service import Credentials
from pilotage.ports.computing import Capacity, PilotOrder, Submitted

from .peer import Peer, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingOptions:
    """Options of a forwarding site: the other Pilotage, our token there, and where it finds our inputs."""

    url: Word
    """URL of the other Pilotage."""
    token_file: LocalPath
    """A file with a token of the role ``user`` of the other Pilotage, read anew for every call."""
    storage: Word
    """The name by which the other Pilotage knows the storage of this queue: inputs are handed over there."""
    ca_path: LocalPath = ""
    """Authorities that are trusted, a file or a folder with hashed names; empty: the system's."""
    directory: LocalPath = ""
    """Where forwarders have their directories; empty: as pilots of the kind ``process``."""


class ForwardingElement(Process):
    """The computing element kind ``pilotage``. Its options are those of :class:`ForwardingOptions`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        given = self._given = parse("pilotage", ForwardingOptions, options)
        self._peer = Peer(given.url, Credentials(token_file=given.token_file, ca_path=given.ca_path))
        super().__init__({"directory": given.directory} if given.directory else {})

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Start a forwarder for each order, where the other Pilotage answers and knows us."""
        try:
            if orders:
                self._peer.check()
        except Refused as refusal:
            return [Submitted(error=f"{self._given.url} refuses us: {refusal}")] * len(orders)
        if any(order.slots != 1 for order in orders):
            several = "a forwarder holds one job, so that it counts once (M5): set pilot_slots to 1"
            return [Submitted(error=several)] * len(orders)
        return super().submit(orders)

    def capacity(self) -> Capacity:
        """Tell nothing: the other Pilotage chooses among its own queues itself."""
        return Capacity()

    def explained(self, attempt: str) -> Sequence[str]:
        """Tell what the other Pilotage decided of an attempt."""
        try:
            task = self._peer.named(attempt)
            job = self._peer.look(task).job if task is not None else None
            if task is None or job is None:
                return [f"{self._given.url} has no job of {attempt}" + (" yet" if task else "")]
            at = f"{self._given.url}, task {task}, job {job['id']}:"
            return [at, *(f"  {line}" for line in self._peer.explained(job["id"]))]
        except Refused as refusal:
            raise OSError(f"{self._given.url}: {refusal}") from refusal

    def command(self, order: PilotOrder, place: Path) -> list[str]:
        """The command that becomes a forwarder."""
        given = self._given
        own = {"peer": given.url, "peer-token-file": given.token_file, "peer-storage": given.storage}
        own |= {"peer-ca": given.ca_path} if given.ca_path else {}
        told = [*agent_options(order), f"--directory={place}"]
        told += [f"--{name}={value}" for name, value in own.items()]
        return [sys.executable, "-I", "-m", "pilotage.computing.forwarding.forwarder", *told]
