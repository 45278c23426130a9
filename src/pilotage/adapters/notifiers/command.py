"""Commands on the server that its operator allows by name."""

import os
from collections.abc import Mapping
from pathlib import Path

from pilotage.ports.bounded_process import run_process
from pilotage.ports.notifying import NotificationError, NotificationMessage, NotificationRefused

TIME_LIMIT = 20.0
"""Seconds after which a command is killed, with everything that it started."""


class AllowedCommands:
    """Runs allowed commands, without a shell, with the message's JSON as standard input.

    ``allowed`` are their paths by name.
    """

    def __init__(self, allowed: Mapping[str, str]) -> None:
        self._allowed = allowed

    def fault(self, name: str) -> str:
        """Return why a command never runs; empty if it may."""
        if name in self._allowed:
            return ""
        names = ", ".join(sorted(self._allowed)) or "none"
        return f"{name!r} is not allowed on this server; these are: {names}"

    def send(self, name: str, message: NotificationMessage) -> None:
        """Run a command. Raises NotificationError where it fails, or takes longer than its time."""
        if fault := self.fault(name):
            raise NotificationRefused(f"the command {fault}")
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PILOTAGE_MESSAGE": message.number,
            "PILOTAGE_SUBJECT": message.subject,
        }
        try:
            end = run_process([self._allowed[name]], message.body, environment, TIME_LIMIT, Path("/"))
        except OSError as error:
            raise NotificationError(f"the command {name} cannot be started: {error.strerror}") from error
        if end.code is None:
            raise NotificationError(f"the command {name} did not end within {TIME_LIMIT:g} s")
        if end.code:
            last = end.complaints.decode(errors="replace").strip().splitlines()[-1:] or [""]
            raise NotificationError(f"the command {name} ended with {end.code}: {last[0][:200]}")
