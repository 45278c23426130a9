"""The adapter of forwarding sites.

It starts a forwarder for each pilot, and reads the other side's reasons.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotage.adapters.computing.agent_file import agent_options
from pilotage.adapters.computing.forwarding.peer import Peer, Refused
from pilotage.adapters.computing.options import LocalPath, Word, parse
from pilotage.adapters.computing.process import Process
from pilotage.adapters.computing.web_service import Credentials
from pilotage.ports.computing import Capacity, PilotOrder, Submitted


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingOptions:
    """Options of a forwarding site: the other Pilotage, our token there, and the storage that it reads
    inputs from."""

    url: Word
    """The URL of the other Pilotage."""
    token_file: LocalPath
    """A file with a token of the role ``user`` at the other Pilotage. Every call reads it."""
    storage: Word
    """The other Pilotage's name for this queue's storage, through which inputs are handed over."""
    ca_path: LocalPath = ""
    """Trusted authorities: a file, or a folder with hashed names; empty: the system's."""
    directory: LocalPath = ""
    """The directory for forwarders; empty: as for pilots of the kind ``process``."""


class ForwardingElement(Process):
    """The computing element kind ``pilotage``. ``ForwardingOptions`` has its options."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        parsed = self._options = parse("pilotage", ForwardingOptions, options)
        self._peer = Peer(parsed.url, Credentials(token_file=parsed.token_file, ca_path=parsed.ca_path))
        super().__init__({"directory": parsed.directory} if parsed.directory else {})

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Start a forwarder for each order, if the other Pilotage answers and accepts our token."""
        try:
            if orders:
                self._peer.check()
        except Refused as refusal:
            return [Submitted(error=f"{self._options.url} refuses us: {refusal}")] * len(orders)
        if any(order.slots != 1 for order in orders):
            several = "a forwarder holds one job, so that it counts once: set pilot_slots to 1"
            return [Submitted(error=several)] * len(orders)
        return super().submit(orders)

    def capacity(self) -> Capacity:
        """Return nothing: the other Pilotage chooses among its own queues."""
        return Capacity()

    def explained(self, attempt: str) -> Sequence[str]:
        """Return the other Pilotage's decisions about an attempt."""
        try:
            task = self._peer.named(attempt)
            job = self._peer.look(task).job if task is not None else None
            if task is None or job is None:
                return [f"{self._options.url} has no job of {attempt}" + (" yet" if task else "")]
            at = f"{self._options.url}, task {task}, job {job['id']}:"
            return [at, *(f"  {line}" for line in self._peer.explained(job["id"]))]
        except Refused as refusal:
            raise OSError(f"{self._options.url}: {refusal}") from refusal

    def command(self, order: PilotOrder, place: Path) -> list[str]:
        """Return the command that becomes a forwarder."""
        options = self._options
        peer = {"peer": options.url, "peer-token-file": options.token_file, "peer-storage": options.storage}
        peer |= {"peer-ca": options.ca_path} if options.ca_path else {}
        arguments = [*agent_options(order), f"--directory={place}"]
        arguments += [f"--{name}={value}" for name, value in peer.items()]
        return [sys.executable, "-I", "-m", "pilotage.adapters.computing.forwarding.forwarder", *arguments]
