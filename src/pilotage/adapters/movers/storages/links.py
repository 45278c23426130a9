"""Symbolic links in storages: where they lead, and why some are not followed.

A link is followed once, when a pattern finds it: the catalogue keeps where it leads to. Every later access
goes there, through no link at all. So an attacker who changes the link, or a folder on its path, gains
nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pilotage.adapters.movers.storages.backend import Backend, LinkError, LinkingBackend, PathEntry, offers
from pilotage.model.values.paths import is_output, is_own

OUT = "it is a symbolic link that leads out of its storage; put what it leads to in its place"
NOWHERE = "it is a symbolic link that leads to nothing; remove it"
CIRCLE = "it is a symbolic link that leads back to a folder around it; remove it"
TO_OURS = "it is a symbolic link to outputs or copies that Pilotage keeps; name these themselves"
SPECIAL = "it is a special file, not a plain one"


@dataclass(frozen=True, slots=True)
class FoundPath:
    """A path that matches, its real path, and its entry."""

    path: str
    real: str
    entry: PathEntry
    is_link: bool = False
    link_fault: str = ""

    @property
    def fault(self) -> str:
        """Return why it is no plain file; empty if it is one."""
        return self.link_fault or (SPECIAL if self.entry.kind == "other" else "")

    @property
    def is_folder(self) -> bool:
        """Return whether it is a folder, or a link to one that is followed."""
        return self.entry.kind == "folder" and not self.link_fault


def follow(backend: Backend, link: FoundPath, former: Sequence[str]) -> FoundPath:
    """Follow a link. One that leads to one of the ``former`` folders, around it, or to the root is a circle.

    A link to nothing gets an entry of the kind ``other``, without content.
    """

    def refused(fault: str, entry: PathEntry = link.entry) -> FoundPath:
        return replace(link, entry=entry, is_link=True, link_fault=fault)

    try:
        real, entry = _target(backend, link.real)
    except LinkError:
        return refused(OUT)
    except (FileNotFoundError, NotADirectoryError):
        return refused(NOWHERE, PathEntry("other"))
    if is_own(real) or is_output(f"{real}/"):
        return refused(TO_OURS)
    # A link can lead to the storage's root only if that is ``/``: every folder is below it.
    if not real or (entry.kind == "folder" and any(f"{folder}/".startswith(f"{real}/") for folder in former)):
        return refused(CIRCLE)
    return replace(link, real=real, entry=entry, is_link=True)


def _target(backend: Backend, path: str) -> tuple[str, PathEntry]:
    """Return the target of a link, and its kind. Raises LinkError, or FileNotFoundError for nothing."""
    if not offers(backend, LinkingBackend):
        raise LinkError(f"{path} may lead anywhere")
    real = backend.resolved(path)
    entry = backend.entry(real) if real else PathEntry("folder")
    if entry.kind == "link":  # it leads to itself, or was changed just now
        raise FileNotFoundError(real)
    return real, entry
