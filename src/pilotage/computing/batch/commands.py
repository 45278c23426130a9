"""Commands and what came of them, on whatever host they run."""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from .spool_paths import SpoolPaths

LONGEST_OUTPUT = 64 << 20
"""Bytes of a command's output that are read; what passes it is as if the command had not answered."""

NOT_FOUND = 127
"""Exit status of a shell that does not find a command."""

SHOWN = 600
"""Characters of a command's complaint that are shown to people."""

PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR")
PASSED_ON_PREFIXES = ("SGE_", "LSF_", "PBS_CONF", "SLURM_CONF", "EGO_")
"""Variables of this process that commands on this host see; batch systems pass them on to pilots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments, its standard input, and the s after which it is ended.

    Arguments hold no secrets, as other users may read them; ``stdin`` may.
    """

    argv: tuple[str, ...]
    stdin: bytes = field(default=b"", repr=False)
    time_limit: float = 60.0

    def __str__(self) -> str:
        text = shlex.join(self.argv)
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a command. ``code`` is None where nobody knows: it may run still, or be done."""

    stdout: str = ""
    stderr: str = ""
    code: int | None = None

    @property
    def complaint(self) -> str:
        """The complaint of a failed command, on one line."""
        text = " ".join((self.stderr or self.stdout).split())
        text = text if len(text) <= SHOWN else f"...{text[-SHOWN:]}"
        if self.code is None:
            return f"no answer{f': {text}' if text else ''}"
        return text or f"exit status {self.code}"


class CommandRunner(Protocol):
    """Runs commands on one host. ``name`` is the host's, for people."""

    name: str

    def run(self, command: Command) -> Outcome:
        """Run a command to its end. Raises OSError where the host cannot be reached and nothing was done."""

    def server_url(self, url: str, paths: SpoolPaths) -> str:
        """Return the address at which pilots of this host reach the server that answers at ``url``."""


def shell(script: str, stdin: bytes = b"", time_limit: float = 60.0) -> Command:
    """A command of a shell script of one line, which is part of the arguments."""
    return Command(argv=("sh", "-c", script), stdin=stdin, time_limit=time_limit)


class LocalRunner:
    """Runs commands on this host, with none of this process's secrets in their environment."""

    name = "this host"

    def server_url(self, url: str, paths: SpoolPaths) -> str:  # noqa: ARG002
        """The server's own."""
        return url

    def run(self, command: Command) -> Outcome:
        """See :meth:`CommandRunner.run`; what is over its time is killed with all that it started."""
        # Files and not pipes: a child that keeps a pipe open would be waited for after the command has ended.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
            try:
                process = subprocess.Popen(
                    command.argv,
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=complaints,
                    env=_passed_on(os.environ),
                    start_new_session=True,
                )
            except FileNotFoundError:
                return Outcome(stderr=f"{command.argv[0]}: not found", code=NOT_FOUND)
            code: int | None = None
            with suppress(subprocess.TimeoutExpired):
                process.communicate(command.stdin, timeout=command.time_limit)
                code = process.returncode
            if code is None:
                # The whole session is killed: it is the group that start_new_session made.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            texts = []
            for file in (out, complaints):
                file.seek(0)
                texts.append(file.read(LONGEST_OUTPUT + 1))
        return outcome(texts[0], texts[1], code)


def outcome(out: bytes, complaints: bytes, code: int | None) -> Outcome:
    """The outcome of a command that wrote this."""
    if max(len(out), len(complaints)) > LONGEST_OUTPUT:
        return Outcome(stderr=f"more than {LONGEST_OUTPUT} bytes of output")
    return Outcome(stdout=out.decode(errors="replace"), stderr=complaints.decode(errors="replace"), code=code)


def _passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
