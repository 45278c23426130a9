"""Commands and their outcomes, on any host."""

import shlex
from dataclasses import dataclass, field
from typing import Protocol

from pilotage.ports.bounded_process import MOST_OUTPUT, inherited, run_process

NOT_FOUND = 127
"""The shell's exit status for an unknown command."""

SHOWN = 600
"""Most characters of a command's error message that people see."""

PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"),
    *("SGE_*", "LSF_*", "PBS_CONF*", "SLURM_CONF*", "EGO_*"),
)
"""Variables that local commands inherit. Batch systems pass them on to pilots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments, its standard input, and its time limit in s.

    Other users can read arguments, so these hold no secrets; ``stdin`` may.
    """

    argv: tuple[str, ...]
    stdin: bytes = field(default=b"", repr=False)
    time_limit: float = 60.0

    def __str__(self) -> str:
        text = shlex.join(self.argv)
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a command.

    ``code`` is None if the outcome is unknown: the command may still run, or be done.
    """

    stdout: str = ""
    stderr: str = ""
    code: int | None = None

    @property
    def complaint(self) -> str:
        """Return the error message of a failed command, on one line."""
        text = " ".join((self.stderr or self.stdout).split())
        text = text if len(text) <= SHOWN else f"...{text[-SHOWN:]}"
        if self.code is None:
            return f"no answer{f': {text}' if text else ''}"
        return text or f"exit status {self.code}"


class CommandRunner(Protocol):
    """Runs commands on one host. ``name`` is the host's name for people."""

    name: str

    def run(self, command: Command) -> Outcome:
        """Run a command to its end.

        Raises OSError if the host cannot be reached and the command did not start.
        """

    def server_url(self, url: str, file: str) -> str:
        """Return the address that pilots of this host use for the server at ``url``.

        ``file`` holds a relay's address.
        """


def shell(script: str, stdin: bytes = b"", time_limit: float = 60.0) -> Command:
    """Return a command that runs a one-line shell script, which is part of its arguments."""
    return Command(argv=("sh", "-c", script), stdin=stdin, time_limit=time_limit)


class LocalRunner:
    """Runs commands on this host, without this process's secrets in their environment."""

    name = "this host"

    def server_url(self, url: str, file: str) -> str:  # noqa: ARG002
        """Return the server's own address."""
        return url

    def run(self, command: Command) -> Outcome:
        """See ``CommandRunner.run``.

        After its time limit, the command dies with everything that it started.
        """
        try:
            end = run_process(command.argv, command.stdin, inherited(PASSED_ON), command.time_limit)
        except FileNotFoundError:
            return Outcome(stderr=f"{command.argv[0]}: not found", code=NOT_FOUND)
        return outcome(end.out, end.complaints, end.code)


def outcome(out: bytes, complaints: bytes, code: int | None) -> Outcome:
    """Return the outcome of a command with this output. A longer output counts as no answer."""
    if max(len(out), len(complaints)) > MOST_OUTPUT:
        return Outcome(stderr=f"more than {MOST_OUTPUT} bytes of output")
    return Outcome(stdout=out.decode(errors="replace"), stderr=complaints.decode(errors="replace"), code=code)
