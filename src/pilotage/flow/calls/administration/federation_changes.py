"""Put a federation in force in a running system: the changes, their effects, and refusals."""

import logging
from dataclasses import dataclass
from itertools import zip_longest
from operator import attrgetter

from pilotage.flow.errors import NotThere
from pilotage.model.documents.serialization import declared_digest
from pilotage.model.records.federation import Federation
from pilotage.model.records.unified_queues import conditioned
from pilotage.model.rules.federation_changes import (
    FederationChange,
    FederationEffect,
    concerned,
    differences,
    effects,
)
from pilotage.model.values.types import DESCRIBED
from pilotage.store import FederationFile, FederationRenamed, ListPage, NoFederation, Store, cut, numbered
from pilotage.store.queues.federations import UP

log = logging.getLogger(__name__)

NEWEST = 2**31 - 1
"""More than any version of a federation."""

MOST_TOLD = 20
"""Most losses listed in a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A change of the federation, and its effects on existing work and files."""

    changes: tuple[FederationChange, ...] = ()
    effects: tuple[FederationEffect, ...] = ()

    @property
    def losses(self) -> tuple[FederationEffect, ...]:
        """Return the effects that lose something."""
        return tuple(effect for effect in self.effects if effect.lost)


class WorkInTheWay(Exception):
    """A change would lose work or files; the message names them and a remedy."""

    def __init__(self, losses: tuple[FederationEffect, ...]) -> None:
        super().__init__("; ".join(_shortened([loss.text for loss in losses])))
        self.losses = losses


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_TOLD
    return lines if more <= 0 else [*lines[:MOST_TOLD], f"and {more} more"]


def review(store: Store, federation: Federation) -> Review:
    """Compare a federation with the one in force, and examine existing work and files. Nothing is changed.

    Raises ``FederationRenamed``.
    """
    try:
        before = store.declared_federation()
    except NoFederation:
        return Review()
    if before.name != federation.name:
        raise FederationRenamed(before.name, federation.name)
    both = conditioned(before), conditioned(federation)
    queues, storages = concerned(*both)
    there = store.work_there(queues, storages) if queues or storages else None
    follows = effects(*both, there) if there else ()
    return Review(changes=differences(before, federation), effects=follows)


def save(
    store: Store,
    federation: Federation,
    actor: str,
    path: str = "",
    *,
    force: bool = False,
    expected: int | None = None,
    note: str = "",
) -> int:
    """Put in force a federation from the file at a path. Return its version.

    Raises ``WorkInTheWay`` if work or files would be lost, unless ``force``, ``FederationRenamed``, and
    ``FederationChanged`` if another version than ``expected`` is in force.
    """
    if not force and (losses := review(store, federation).losses):
        raise WorkInTheWay(losses)
    return store.save_federation(federation, actor, file_of(federation, path), expected=expected, note=note)


def of_version(store: Store, version: int) -> Federation:
    """Return the federation that a version declared. Raises ``NotThere``."""
    federation = store.federations.of_version(version)
    if federation is None:
        raise NotThere(f"there is no version {version}; pilotage federation history lists them")
    return federation


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedVersion:
    """A version of the federation that is or was in force."""

    __pydantic_config__ = DESCRIBED

    version: int
    """Its number."""
    time: float
    """When it was saved, in s since 1970 UTC."""
    actor: str
    """Who saved it; `up`: a server at its start, from its file."""
    file: str
    """The file that it was loaded from."""
    note: str
    """Why: the caller's words, or the places that were drained, closed or opened."""
    changes: tuple[str, ...]
    """Its differences from the version before it."""


def history(store: Store, after: str, limit: int) -> ListPage[DescribedVersion]:
    """Return versions, newest first, after one in this list. Raises ``BadCursor``."""
    before = numbered(after, NEWEST) if after else NEWEST
    versions = store.federations.history(before, limit + 1)
    declared = {version.version: store.federations.of_version(version.version) for version in versions}
    described = []
    for version, earlier in zip_longest(versions, versions[1:]):
        declaration, old = declared[version.version], declared[earlier.version] if earlier else None
        changes = [change.text for change in differences(old, declaration)] if declaration and old else []
        described.append(
            DescribedVersion(
                version=version.version,
                time=version.time,
                actor=version.actor,
                file=version.file,
                note=version.note,
                changes=tuple(_shortened(changes)),
            )
        )
    page, following = cut(described, limit, attrgetter("version"))
    return ListPage(page, store.version() or 0, {}, following)


def file_of(federation: Federation, path: str) -> FederationFile:
    """Return the record of the file at a path and its declared federation."""
    return FederationFile(path, declared_digest(federation))


def load(store: Store, federation: Federation, path: str, *, force: bool = False) -> None:
    """Put the federation of a server's file in force if the file's declaration has changed.

    Otherwise the store's federation stays in force, with all later changes: a restart undoes nothing. Raises
    the errors of ``save``.
    """
    loaded = store.loaded_version(file_of(federation, path), federation)
    if loaded is None:
        version = save(store, federation, UP, path, force=force)
        log.info("%s is in force, as version %d of the federation", path or "the file", version)
    elif (version := store.version()) != loaded:
        log.warning(
            "%s is as it was when it was loaded as version %d: version %d, which came later, stays in force; "
            "`pilotage federation load` puts the file in force again",
            path or "the file",
            loaded,
            version,
        )
    else:
        log.info("%s is unchanged: version %d of the federation stays in force", path or "the file", version)
