"""Job descriptions of pilots for HTCondor, and the files that go with them."""

import hashlib
import math
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pilotage.adapters.computing.agent_file import pilot_file
from pilotage.adapters.computing.options import LocalPath, OneLine, Word
from pilotage.ports.computing import PilotOrder

NAME, NAMES = "PilotagePilot", "PilotagePilots"
"""Attributes with a pilot's name, and with all names of a cluster that is materialised late."""

TOKEN, LOG = "token", "agent.log"
KEPT = 6 * 3600
"""Seconds that an ended job stays in the queue, so that we see its end."""

GRACE = 60
"""Seconds after its walltime at which a pilot is removed."""

OLDEST_FILES = 8 * 86_400
"""Seconds after which a pilot's local files are deleted: the pilot has ended by then."""

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,200}")

RESERVED = {
    *("executable", "arguments", "environment", "initialdir", "queue", "output", "error", "universe"),
    *("transfer_input_files", "transfer_output_files", "transfer_executable", "should_transfer_files"),
    *(
        "request_cpus",
        "request_memory",
        "leave_in_queue",
        "periodic_remove",
        "allowed_execute_duration",
        "max_idle",
        "max_materialize",
    ),
    *(
        f"{start}{name}".lower()
        for start in ("+", "my.")
        for name in (NAME, NAMES, "maxWallTime", "maxMemory", "xcount")
    ),
}
"""Submit commands that the adapter writes itself, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HTCondorOptions:
    """Options of an HTCondor queue: its address, the credentials, and what pilots need there."""

    schedd: OneLine = ""
    """The schedd's name; empty: the schedd of this machine, or of the collector's machine."""
    collector: OneLine = ""
    """The pool's collector as ``host:port``: 9618, or 9619 for an HTCondor-CE; empty: as configured here."""
    config_file: LocalPath = ""
    """HTCondor's configuration for this element; empty: this machine's, if it has one."""
    token_file: LocalPath = ""
    """A SciToken or WLCG token. If given, the element uses no other credentials."""
    ca_path: LocalPath = ""
    """Trusted authorities: a file or a folder."""
    submit: Mapping[str, str | int | float] = field(default_factory=dict)
    """More submit commands, such as ``accounting_group``, ``requirements`` or ``+queue``."""
    directory: LocalPath = ""
    """The directory for pilots' files until they are sent; empty: ``~/.local/state/pilotage/htcondor``."""
    max_idle: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Most waiting jobs of one submission at a time. The schedd makes the others as these start (late
    materialisation). This works only if the schedd reads this machine's files, without ``collector``."""
    python: Word = "python3"
    """The Python of worker nodes, 3.9 or newer."""
    policies: Mapping[str, Literal["memory", "walltime"]] = field(default_factory=dict)
    """The limit behind each of the site's own policies, by its subcode or a part of its reason."""

    def __post_init__(self) -> None:
        for name, value in self.submit.items():
            if name.lower() in RESERVED or not re.fullmatch(r"\+?[A-Za-z_][\w.]*", name):
                raise ValueError(f"submit: {name!r} is no command, or one that the adapter writes itself")
            if any(not char.isprintable() for char in str(value)):
                raise ValueError(f"submit: the value of {name} is not one line")
        if self.max_idle and self.collector:
            raise ValueError("max_idle needs a schedd of this machine: leave out collector")
        if "$" in self.directory:
            raise ValueError("directory: a submit description expands $")


def describe(order: PilotOrder, options: HTCondorOptions, place: Path, names: list[str]) -> dict[str, str]:
    """Return the description of a cluster of similar pilots. Each has its own folder."""
    program = _program(pilot_file(order, options.python, TOKEN), place / "programs")
    walltime = math.ceil(order.walltime)
    described = {
        "universe": "vanilla",
        "executable": str(program),
        "initialdir": "$(folder)",
        "transfer_input_files": TOKEN,
        "should_transfer_files": "YES",
        "when_to_transfer_output": "ON_EXIT",
        # If this were unset, HTCondor would send back everything in the pilot's directory.
        "transfer_output_files": '""',
        "output": LOG,
        "error": LOG,
        "request_cpus": str(order.cores),
        # Otherwise an ended job disappears immediately, with its exit code.
        "leave_in_queue": f"JobStatus == 4 && time() - CompletionDate < {KEPT}",
        # A held job has a reason. Schedds before 9.4 do not know that limit, and remove the job a little
        # later.
        "allowed_execute_duration": str(walltime + GRACE),
        "periodic_remove": f"JobStatus == 2 && time() - JobCurrentStartDate > {walltime + 2 * GRACE}",
        f"My.{NAME}": '"$(pilot)"',
        # An HTCondor-CE passes these on to the batch system behind it, in minutes and MB.
        "My.maxWallTime": str(math.ceil(walltime / 60)),
        "My.xcount": str(order.cores),
        **{name: str(value) for name, value in options.submit.items()},
    }
    if order.memory:
        described["request_memory"] = described["My.maxMemory"] = str(math.ceil(order.memory))
    if options.max_idle:
        described["max_idle"] = str(options.max_idle)
        described[f"My.{NAMES}"] = f'"{" ".join(names)}"'
    return described


def _program(content: bytes, folder: Path) -> Path:
    """Store a pilot's program in a folder, under a name made from its content.

    Equal programs share one file.
    """
    program = folder / hashlib.sha256(content).hexdigest()[:16]
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Rename the complete file: a copy cut by a full disk would become the program of every later pilot.
        draft = program.with_name(f"{program.name}.{secrets.token_hex(4)}")
        draft.write_bytes(content)
        draft.chmod(0o755)
        draft.replace(program)
    return program


def provide(order: PilotOrder, place: Path) -> dict[str, str]:
    """Write a pilot's token where the schedd reads it. Return the job's item."""
    folder = place / "pilots" / order.name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    token = folder / TOKEN
    token.unlink(missing_ok=True)
    # Set the permissions before writing anything.
    token.touch(0o600)
    token.write_text(order.token)
    return {"pilot": order.name, "folder": str(folder)}


def forget_old_files(place: Path) -> None:
    """Delete the files of pilots that ended long ago."""
    for folder in (place / "pilots").glob("*"):
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - OLDEST_FILES:
                shutil.rmtree(folder)


def quoted(text: str) -> str:
    """Return a text as a literal of a ClassAd expression."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
