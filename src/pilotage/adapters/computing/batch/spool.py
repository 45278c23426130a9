"""Files of pilots on the login node: agent, tokens and logs. Only the account can read them."""

import hashlib
import io
import re
import secrets
import shlex
import tarfile
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from pilotage.adapters.computing.agent_file import agent_file
from pilotage.adapters.computing.batch.commands import Command, CommandRunner, shell
from pilotage.adapters.computing.batch.options import shell_path
from pilotage.home_name import name_of
from pilotage.ports.computing import MOST_MANIFEST, LeftBehind
from pilotage.settings import Settings

_PLACE = re.compile(r"[0-9a-f]+/left/[\w.+-]+/\d+\.\d+")
"""The folder of an attempt's results below a spool."""

KEPT = 14
"""Days before logs, and tokens of pilots that never started, are deleted."""

TAIL = 400
"""Bytes from the end of a pilot's log that explain its end."""

MOST_TAILS = 50
"""Most log ends read per poll."""

_SEPARATOR, _LEFT = "--pilotage-log--", "--pilotage-left--"


@cache
def agent_name() -> str:
    """Return the name of the agent's file, made from its content.

    Pilots of an older server keep their own file.
    """
    return f"agent-{hashlib.sha256(agent_file()).hexdigest()[:12]}.pyz"


@dataclass(frozen=True, slots=True)
class SpoolPaths:
    """Paths of a spool. Its ``root`` is absolute in the site's file system."""

    root: str
    agent: str

    @property
    def logs(self) -> str:
        """Return the folder of logs."""
        return f"{self.root}/logs"

    @property
    def identity(self) -> str:
        """Return the file with the key and certificate that pilots and relay share."""
        return f"{self.root}/relay.pem"

    @property
    def address(self) -> str:
        """Return the file with the relay's address."""
        return f"{self.root}/relay.url"


class SpoolFault(OSError):
    """The login node cannot store the files of pilots."""


class Spool:
    """The directory for this server's pilots at one login node."""

    def __init__(self, runner: CommandRunner, place: str) -> None:
        self._runner = runner
        self._option, self._place = place, spool_folder(place)

    def put(self, tokens: Mapping[str, str], places: Mapping[str, str]) -> tuple[SpoolPaths, dict[str, str]]:
        """Write each pilot's token, its future place, and the agent if it is missing.

        Return the paths, and the places of pilots that an earlier call recorded, from whichever server of
        the account. Raises OSError if nothing can be stored.
        """
        files = {f"tokens/{pilot}": token.encode() for pilot, token in tokens.items()}
        # Two calls may write at the same time: each uses its own folder, and `mv -n` lets the first win.
        new = f"new-{secrets.token_hex(8)}"
        files |= {f"{new}/{pilot}": f"{place}\n".encode() for pilot, place in places.items()}
        # Earlier records stay, also other servers', and the script prints them. It starts no process
        # for each of them.
        show = 'if [ -e "$f" ]; then read -r place <"$f"; echo "$n $place"; fi'
        show_others = f'for o in {new}/*; do n="${{o##*/}}"; for f in ../*/places/"$n"; do {show}; done; done'
        show_these = (
            f'for f in {new}/*; do n="${{f##*/}}"; if [ -e "$f" ]; then f="places/$n"; {show}; fi; done'
        )
        paths, lines = self._unpack(
            files, f"{{ {show_others}; mv -n {new}/* places/; {show_these}; rm -rf {new}; }}"
        )
        if "there" not in lines:
            paths, lines_again = self._unpack({f"{agent_name()}.part": agent_file()})
            if "there" not in lines_again:
                raise SpoolFault(f"{self._runner.name}: {paths.root} lost the pilots' agent")
        return paths, {pilot: place for pilot, _, place in (line.partition(" ") for line in lines) if place}

    def place(self, places: Mapping[str, str]) -> None:
        """Replace the recorded places of pilots. Raises OSError."""
        self._unpack({f"places/{pilot}": f"{place}\n".encode() for pilot, place in places.items()})

    def tails(self, pilots: Collection[str]) -> dict[str, str]:
        """Return the last lines of pilots' readable logs, by pilot.

        Remove the pilots' tokens.
        """
        chosen = list(pilots)[:MOST_TAILS]
        each = f'echo {_SEPARATOR}$n; tail -c {TAIL} "logs/$n.log"'
        loop = f"for n in {shlex.join(chosen)}; do {each}; done"
        script = f"cd {self._place} && {{ rm -f {_tokens(pilots)}; {loop}; }}"
        out = self._runner.run(shell(script)).stdout
        last_lines = {}
        for part in out.split(_SEPARATOR)[1:]:
            name, _, text = part.partition("\n")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                last_lines[name] = lines[-1]
        return last_lines

    def results(self, pilots: Collection[str], days: float) -> dict[str, list[LeftBehind]]:
        """Return what pilots left in the spool, by pilot. Remove results that are older than ``days``.

        The spool may also have pilots of other servers of this account. Raises OSError if it cannot be read.
        """
        each = f'echo "{_LEFT}${{m%/manifest}}"; head -c {MOST_MANIFEST} "$m"; echo'
        inner = f'for m in */left/"$n"/*/manifest; do if [ -f "$m" ]; then {each}; fi; done'
        loop = f"for n in {shlex.join(pilots)}; do {inner}; done"
        old = f"find */left -mindepth 2 -maxdepth 2 -mtime +{days:g} -exec rm -rf {{}} + 2>/dev/null"
        # Before the first submission there is no spool. If its parent is missing too, the disk may be away.
        none = 'if [ ! -e "$s" ] && [ -d "$(dirname "$s")" ]; then exit 0; fi'
        script = f's={shell_path(self._option)}; {none}; cd "$s" && {{ {old}; {loop}; }}'
        outcome = self._runner.run(shell(script))
        if outcome.code != 0:
            raise SpoolFault(f"{self._runner.name}: the spool cannot be read: {outcome.complaint}")
        results: dict[str, list[LeftBehind]] = {}
        for part in outcome.stdout.split(_LEFT)[1:]:
            place, _, manifest = part.partition("\n")
            if _PLACE.fullmatch(place):
                result = LeftBehind(place=place, manifest=manifest.rstrip("\n"), days=days)
                results.setdefault(place.split("/")[2], []).append(result)
        return results

    def read_left(self, place: str, number: int, start: int, size: int) -> str:
        """Return bytes of a file that a pilot left, in base64. Raises OSError."""
        part = f"tail -c +{start + 1} {shlex.quote(f'{place}/{number}')} | head -c {size}"
        script = f"cd {shell_path(self._option)} && {part} | base64 -w 0"
        outcome = self._runner.run(shell(script))
        if outcome.code != 0:
            raise SpoolFault(f"{self._runner.name}: {place} cannot be read: {outcome.complaint}")
        return outcome.stdout.strip()

    def drop_left(self, places: Collection[str]) -> None:
        """Remove what pilots left. Raises OSError."""
        outcome = self._runner.run(shell(f"cd {shell_path(self._option)} && rm -rf {shlex.join(places)}"))
        if outcome.code != 0:
            raise SpoolFault(f"{self._runner.name}: results cannot be removed: {outcome.complaint}")

    def forget(self, pilots: Collection[str]) -> None:
        """Remove the tokens of pilots that will not start."""
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
        """Return the command that unpacks files below the spool of option ``place`` and then runs ``then``.

        Its output is the spool's absolute path, ``there`` if the agent exists, and the output of ``then``.
        """
        folder = spool_folder(place)
        # The next call would mistake a partial file, cut by a full disk, for the agent.
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
    """Return this server's folder below a spool directory, as a shell word."""
    return f"{shell_path(place)}/{name_of(Settings.read().home)}"


def _tokens(pilots: Iterable[str]) -> str:
    return shlex.join(f"tokens/{name}" for name in pilots)


def _archive(files: Iterable[tuple[str, bytes]]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files:
            entry = tarfile.TarInfo(name)
            # Set the current time: tar keeps times, and the cleanup would delete files of 1970.
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()
