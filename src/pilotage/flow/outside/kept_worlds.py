"""Keep worlds of some decisions, compressed, bounded in bytes and age: yesterday's can be repeated.

A world holds people's commands and the options of the federation: only the server's user may read the files.
"""

import gzip
import logging
import re
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import NamedTuple

from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.documents.world import World
from pilotage.model.rules.webhooks import without_webhooks
from pilotage.model.values.types import DESCRIBED

log = logging.getLogger(__name__)

FOLDER = "worlds"
"""The folder below the server's home."""

EVERY = 900.0
"""Seconds between two kept worlds of one step."""

MOST_BYTES = 256 << 20
"""Most bytes of all kept worlds together. The oldest go first."""

LARGEST = 50_000
"""Most records of a kept world: writing a larger one would delay the server's passes."""

_NAME = re.compile(r"(\d{8}T\d{6}Z)-([a-z]+)\.json\.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptWorldView:
    """A world that a server kept, as people see it."""

    __pydantic_config__ = DESCRIBED

    name: str
    """Its name, for `pilotage replay`."""
    time: float
    """When the step decided, in s since 1970."""
    step: str
    """The step."""
    bytes: int
    """The size of its file."""


class KeptWorld(NamedTuple):
    """A kept world: its time in s since 1970 UTC, the step that decided, its file, and the file's bytes."""

    time: float
    step: str
    file: Path
    size: int

    @property
    def name(self) -> str:
        """Return the name that people use for it: ``20261127T020312Z-broker``."""
        return self.file.name.removesuffix(".json.gz")

    @property
    def view(self) -> KeptWorldView:
        """Return it as people see it."""
        return KeptWorldView(name=self.name, time=self.time, step=self.step, bytes=self.size)


class KeptWorlds:
    """Writes worlds into a folder; none without one. ``days`` bounds their age. Safe for many threads."""

    def __init__(self, folder: Path | None, days: float = 0.0, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder if days else None
        self._age = days * 86_400
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._last: dict[str, float] = {}
        self._writing: threading.Thread | None = None

    def offer(self, step: str, world: World) -> None:
        """Keep the world of a pass that changed something, if the last one of the step is old enough.

        Another thread writes it, one at a time.
        """
        if self._folder is None or _records(world) > LARGEST:
            return
        with self._lock:
            is_busy = self._writing is not None and self._writing.is_alive()
            if is_busy or 0 <= world.time - self._last.get(step, -inf) < EVERY:
                return
            self._last[step] = world.time
            plain = World(**{field.name: getattr(world, field.name) for field in fields(World)})
            self._writing = threading.Thread(
                target=self._write, args=(self._folder, step, plain), name="kept-worlds", daemon=True
            )
            self._writing.start()

    def listed(self) -> list[KeptWorldView]:
        """Return the worlds that are there, oldest first."""
        return [] if self._folder is None else [world.view for world in list_worlds(self._folder)]

    def wait(self) -> None:
        """Wait until the last offered world is written."""
        if (writing := self._writing) is not None:
            writing.join()

    def _write(self, folder: Path, step: str, world: World) -> None:
        file = folder / f"{datetime.fromtimestamp(world.time, UTC):%Y%m%dT%H%M%SZ}-{step}.json.gz"
        draft = file.with_suffix(".part")
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            draft.touch(mode=0o600)
            draft.write_bytes(gzip.compress(to_json(without_webhooks(world)), compresslevel=6))
            draft.replace(file)
            self._forget(folder, world.time)
        except OSError as error:
            log.warning("the world of step %s is not kept: %s", step, error)

    def _forget(self, folder: Path, now: float) -> None:
        """Delete old worlds, then the oldest ones beyond the most bytes."""
        room = self._most_bytes
        for world in reversed(list_worlds(folder)):
            room -= world.size
            if room < 0 or now - world.time > self._age:
                world.file.unlink(missing_ok=True)


def list_worlds(folder: Path) -> list[KeptWorld]:
    """Return the worlds that a folder has, oldest first; none if it does not exist."""
    worlds: list[KeptWorld] = []
    for file in sorted(folder.glob("*.json.gz")) if folder.is_dir() else ():
        if named := _NAME.fullmatch(file.name):
            moment = datetime.strptime(named[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            with suppress(FileNotFoundError):  # its server may delete old ones now
                worlds.append(KeptWorld(moment.timestamp(), named[2], file, file.stat().st_size))
    return worlds


def read_kept(world: KeptWorld) -> World:
    """Return a kept world. Raises OSError, and ValueError if another version wrote it in another form."""
    return from_json(World, gzip.decompress(world.file.read_bytes()))


def _records(world: World) -> int:
    kinds: Iterable[object] = (world.jobs, world.tasks, world.files, world.replicas, world.transfers)
    return sum(len(kind) for kind in (*kinds, world.pilots) if isinstance(kind, tuple))
