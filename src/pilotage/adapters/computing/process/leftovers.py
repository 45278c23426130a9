"""Work directories that remain because their agent and supervisors were killed, or the machine crashed."""

import logging
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pilotage.agent.payload.trees import remove_tree

log = logging.getLogger(__name__)

EVERY = 600.0
"""Least seconds between two searches."""

_WORK = re.compile(r"\d+\.\d+")
"""Names of work directories: job and attempt."""


class Leftovers:
    """The work directories of ended pilots below a directory.

    ``has_ended`` gets a pilot's folder and returns whether the pilot has ended.
    """

    def __init__(self, directory: Path, has_ended: Callable[[Path], bool]) -> None:
        self._directory, self._has_ended = directory, has_ended
        self._turn = threading.Lock()
        self._next = 0.0

    def search(self) -> None:
        """Remove all that ended pilots left, in a thread, at most once in ``EVERY`` s."""
        if time.monotonic() >= self._next and self._turn.acquire(blocking=False):
            self._next = time.monotonic() + EVERY
            threading.Thread(target=self._search, name="leftovers", daemon=True).start()

    def sweep(self, is_meant: Callable[[Path], bool]) -> None:
        """Remove what ended pilots left in the directories that are meant."""
        try:
            for place in sorted(self._directory.iterdir()):
                if place.is_dir() and not place.is_symlink() and is_meant(place) and self._has_ended(place):
                    remove(place)
        except FileNotFoundError:
            return  # no pilot has run here yet
        except OSError as error:
            log.warning("pilots' directories cannot be searched: %s", error)

    def _search(self) -> None:
        try:
            self.sweep(lambda _: True)
        finally:
            self._turn.release()


def remove(place: Path) -> None:
    """Remove the work directories of an ended pilot. Log failures, and go on."""
    try:
        folders = [path for path in place.iterdir() if _WORK.fullmatch(path.name)]
    except OSError:
        return
    for path in folders:
        try:
            remove_tree(str(path))
            log.info("%s was left behind, and is removed", path)
        except OSError as error:
            log.warning("%s is left behind: %s", path, error)
