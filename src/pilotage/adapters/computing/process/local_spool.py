"""Results that pilots of this machine left because their server was away: a folder of folders by pilot."""

import base64
import re
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from pilotage.agent.files.spool_wire import MANIFEST
from pilotage.agent.payload.trees import entries
from pilotage.ports.computing import MOST_MANIFEST, LeftBehind

_ATTEMPT = re.compile(r"\d+\.\d+")


class LocalSpool:
    """Results take up to ``room`` MB, and stay for some ``days``."""

    def __init__(self, folder: Path, room: float, days: float) -> None:
        self._folder, self._room, self._days = folder, room, days

    def agent_options(self, pilot: str) -> list[str]:
        """Return the options of a pilot that may leave results."""
        limits = [f"--spool-room={self._room:g}", f"--spool-days={self._days:g}"]
        return [f"--spool={self._folder / pilot}", *limits]

    def pilots(self) -> list[str]:
        """Return the pilots that left something. Remove old results. Raises OSError."""
        pilots = entries(self._folder)
        for place in [place for pilot in pilots for place in entries(pilot)]:
            with suppress(FileNotFoundError):
                if place.stat().st_mtime < time.time() - self._days * 86400:
                    self.drop([self._named(place)])
        return [path.name for path in pilots if path.exists()]

    def of(self, pilot: str) -> tuple[LeftBehind, ...]:
        """Return what a pilot left. Raises OSError."""
        left = []
        for place in entries(self._folder / pilot):
            if _ATTEMPT.fullmatch(place.name):
                with suppress(FileNotFoundError):  # another pilot has just delivered it
                    manifest = _start_of(place / MANIFEST)
                    left.append(LeftBehind(place=self._named(place), manifest=manifest, days=self._days))
        return tuple(left)

    def read(self, place: str, number: int, start: int, size: int) -> str:
        """See ``ResultsKeeper``."""
        with (self._folder.parents[1] / place / str(number)).open("rb") as file:
            file.seek(start)
            return base64.b64encode(file.read(size)).decode()

    def drop(self, places: Collection[str]) -> None:
        """See ``ResultsKeeper``."""
        for place in places:
            with suppress(FileNotFoundError):
                shutil.rmtree(self._folder.parents[1] / place)
            with suppress(OSError):  # the pilot left something else, too
                (self._folder.parents[1] / place).parent.rmdir()

    def _named(self, place: Path) -> str:
        """Return the name of a place as pilots call it, too: from the spool's own name on."""
        return str(place.relative_to(self._folder.parents[1]))


def _start_of(manifest: Path) -> str:
    with manifest.open("rb") as file:
        return file.read(MOST_MANIFEST).decode(errors="replace")
