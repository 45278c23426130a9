"""Files of pilots on the login node: their agent, their tokens, their logs, readable by the account alone."""

import hashlib
import io
import secrets
import shlex
import socket
import tarfile
import time
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from pilotage.computing.agent_file import agent_file
from pilotage.settings import Settings

from .commands import Command, CommandRunner, shell
from .options import shell_path
from .spool_paths import SpoolPaths

KEPT = 14
"""Days that logs are kept, and tokens of pilots that never started."""

TAIL = 400
"""Bytes of the end of a pilot's log that tell why it ended."""

MOST_TAILS = 50
"""Logs of which the end is read at one poll."""

_SEPARATOR = "--pilotage-log--"


def instance() -> str:
    """This server's own name below a spool directory: others of the same account keep apart from it."""
    return hashlib.sha256(f"{socket.gethostname()} {Settings().home}".encode()).hexdigest()[:12]


@cache
def agent_name() -> str:
    """The agent's file, by what is in it: pilots of an older server keep theirs."""
    return f"agent-{hashlib.sha256(agent_file()).hexdigest()[:12]}.pyz"


class SpoolFault(OSError):
    """The login node cannot keep files of pilots."""


class Spool:
    """The directory of this server's pilots at one login node."""

    def __init__(self, runner: CommandRunner, place: str) -> None:
        self._runner = runner
        self._option, self._place = place, spool_folder(place)

    def put(self, tokens: Mapping[str, str], places: Mapping[str, str]) -> tuple[SpoolPaths, dict[str, str]]:
        """Write tokens by pilot, the agent where it is not there yet, and the place where each pilot will be.

        Returns the paths, and the places of those pilots that were written down before. Raises OSError where
        nothing can be kept.
        """
        files = {f"tokens/{pilot}": token.encode() for pilot, token in tokens.items()}
        # Two calls may write at once: each has a folder of its own, from which `mv -n` lets the first win.
        new = f"new-{secrets.token_hex(8)}"
        files |= {f"{new}/{pilot}": f"{place}\n".encode() for pilot, place in places.items()}
        # What was written down before stays, and is told: no process is started for each of the others.
        known = 'n="${f##*/}"; read -r place <"places/$n"; echo "$n $place"'
        left = f'for f in {new}/*; do if [ -e "$f" ]; then {known}; fi; done'
        paths, said = self._unpack(files, f"{{ mv -n {new}/* places/; {left}; rm -rf {new}; }}")
        if "there" not in said:
            paths, said_then = self._unpack({f"{agent_name()}.part": agent_file()})
            if "there" not in said_then:
                raise SpoolFault(f"{self._runner.name}: {paths.root} lost the pilots' agent")
        return paths, {pilot: place for pilot, _, place in (line.partition(" ") for line in said) if place}

    def place(self, places: Mapping[str, str]) -> None:
        """Write down anew where pilots will be. Raises OSError."""
        self._unpack({f"places/{pilot}": f"{place}\n".encode() for pilot, place in places.items()})

    def tails(self, pilots: Collection[str]) -> dict[str, str]:
        """The last lines of some pilots' logs by pilot, where they can be read; tokens are removed."""
        chosen = list(pilots)[:MOST_TAILS]
        each = f'echo {_SEPARATOR}$n; tail -c {TAIL} "logs/$n.log"'
        loop = f"for n in {shlex.join(chosen)}; do {each}; done"
        script = f"cd {self._place} && {{ rm -f {_tokens(pilots)}; {loop}; }}"
        out = self._runner.run(shell(script)).stdout
        found = {}
        for part in out.split(_SEPARATOR)[1:]:
            name, _, text = part.partition("\n")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                found[name] = lines[-1]
        return found

    def forget(self, pilots: Collection[str]) -> None:
        """Remove tokens of pilots that will not start."""
        self._runner.run(shell(f"cd {self._place} && rm -f {_tokens(pilots)}"))

    def _unpack(self, files: Mapping[str, bytes], then: str = "true") -> tuple[SpoolPaths, list[str]]:
        outcome = self._runner.run(self.unpacking(self._option, files, then))
        lines = outcome.stdout.splitlines()
        if outcome.code != 0 or not lines:
            raise SpoolFault(
                f"{self._runner.name}: files for pilots cannot be kept in the spool directory: "
                f"{outcome.complaint}; its account's owner can mend it (option spool, quota, rights)"
            )
        return SpoolPaths(lines[0], agent_name()), lines[1:]

    @staticmethod
    def unpacking(place: str, files: Mapping[str, bytes], then: str = "true") -> Command:
        """The command that writes files below the spool of option ``place``, and goes on there.

        It answers with the spool's absolute path, ``there`` where the agent is there, and what ``then`` says.
        """
        folder = spool_folder(place)
        # A part that a full disk cut would be taken for the agent by the next call.
        unpack = f"{{ tar -xf - || {{ rm -f {agent_name()}.part; false; }}; }}"
        script = (
            f"umask 077 && mkdir -p {folder} && cd {folder}"
            f" && mkdir -p tokens places logs && chmod 700 . && {unpack}"
            f" && if [ -e {agent_name()}.part ]; then mv {agent_name()}.part {agent_name()}; fi"
            f" && find logs places tokens -mtime +{KEPT} ! -type d -delete"
            f" && pwd && if [ -s {agent_name()} ]; then echo there; fi && {then}"
        )
        return shell(script, _archive(files.items()))


def spool_folder(place: str) -> str:
    """This server's folder below a spool directory, as a word of a shell."""
    return f"{shell_path(place)}/{instance()}"


def _tokens(pilots: Iterable[str]) -> str:
    return shlex.join(f"tokens/{name}" for name in pilots)


def _archive(files: Iterable[tuple[str, bytes]]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files:
            entry = tarfile.TarInfo(name)
            # Of now: tar keeps times, and files of 1970 would be deleted as too old.
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()
