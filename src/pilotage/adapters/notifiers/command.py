"""Commands on the server that its operator allows by name."""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

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
        known = ", ".join(sorted(self._allowed)) or "none"
        return f"{name!r} is not allowed on this server; these are: {known}"

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
            process = subprocess.Popen(
                [self._allowed[name]],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise NotificationError(f"the command {name} cannot be started: {error.strerror}") from error
        with process:
            try:
                _, told = process.communicate(message.body, TIME_LIMIT)
            except subprocess.TimeoutExpired as error:
                _end(process)
                raise NotificationError(f"the command {name} did not end within {TIME_LIMIT:g} s") from error
        if process.returncode:
            last = told.decode(errors="replace").strip().splitlines()[-1:] or [""]
            raise NotificationError(f"the command {name} ended with {process.returncode}: {last[0][:200]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
