"""The pilot, as seen by its jobs."""

from __future__ import annotations

from typing import Protocol

from .payload.containers import ContainerRuntime
from .proof import Containment
from .wire import AttemptLogs, Report


class PilotHost(Protocol):
    """The pilot, as seen by its jobs."""

    ending: str
    """Why the pilot ends; empty while it goes on."""
    containment: Containment
    """How payloads are contained."""
    runtimes: tuple[ContainerRuntime, ...]
    """The programs that run payloads in containers."""

    contact: float
    """When the last answered call began that listed all held attempts."""

    def say(self, report: Report, logs: AttemptLogs | None = None) -> None:
        """Queue a report, with the logs of an attempt that has ended."""

    def wake(self) -> None:
        """Let the pilot check its jobs again."""
