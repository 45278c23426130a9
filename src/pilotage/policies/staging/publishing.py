"""Register outputs in the datasets that their tasks name: choose when, and process the results."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from pilotage.model.documents.decision import Decision, Move, Value
from pilotage.model.documents.world import World
from pilotage.model.records.catalogues import ExternalCatalogue, OutputTerms
from pilotage.model.records.observations import PublicationSighting
from pilotage.model.records.publications import Publication, is_own, split_dataset
from pilotage.model.records.states import PublicationState
from pilotage.model.values.paths import is_copy

AT_ONCE = 2
"""Datasets of one catalogue in progress at the same time, one call each."""

MOST_FILES = 500
"""Most files registered by one call."""

LEASE = 300.0
"""Seconds after which the registering server counts as ended, unless it is recorded as gone earlier."""

LONGEST_DELAY = 3600.0
"""Longest delay between two attempts in s."""

OWN_TERMS = OutputTerms(scopes=("user.{name}",))
"""The terms of datasets in Pilotage's own catalogue."""

MOST_ATTEMPTS_COUNTED = 20
"""Attempts after which the delay stays constant, because powers of two would overflow."""


def observed(world: World) -> Decision:
    """Record catalogues' answers: published, to be retried, or failed.

    The wait before attempt n + 1 is the catalogue's ``retry_delay`` x 2 to the power n - 1, in s, at most an
    hour. A publication fails ``give_up_after`` s after its request. If its server has ended, it is retried
    without a wait. A second registration of the same file is harmless.
    """
    sightings = {(sighting.publication, sighting.attempt): sighting for sighting in world.published}
    terms = _terms(world)
    moves = _Moves(world)
    for publication in world.publications:
        if publication.state is not PublicationState.PUBLISHING:
            continue
        sighting = sightings.get((publication.id, publication.attempt)) or _unheard(publication, world)
        if sighting is None:
            continue
        if not sighting.error:
            moves.published(publication)
        elif sighting.refused or _is_over(publication, world.time, terms):
            moves.failed(publication, sighting.error)
        else:
            gone = publication.server in world.servers_gone
            moves.again(
                publication, world.time + (0.0 if gone else _delay(publication, terms)), sighting.error
            )
    return moves.decision("publish.observed")


def begin(world: World) -> Decision:
    """Choose what to register now: by catalogue, then dataset, longest due first.

    Take at most ``AT_ONCE`` datasets of a catalogue at a time, and ``MOST_FILES`` files of each, so that a
    dataset without an answer delays only its own outputs. A publication that can never succeed fails with the
    reason.
    """
    moves = _Moves(world)
    busy: dict[str, set[str]] = defaultdict(set)
    for publication in world.publications:
        if publication.state is PublicationState.PUBLISHING:
            busy[split_dataset(publication.dataset)[0]].add(publication.dataset)
    obstacles = _Obstacles(world)
    for dataset, publications in _due_publications(world).items():
        sound: list[Publication] = []
        for publication in publications:
            if error := obstacles.of(publication):
                moves.failed(publication, error)
            else:
                sound.append(publication)
        there = busy[split_dataset(dataset)[0]]
        if sound and dataset not in there and len(there) < AT_ONCE:
            there.add(dataset)
            moves.begun(sound[:MOST_FILES])
    return moves.decision("publish.begin")


def again(world: World) -> Decision:
    """Request failed publications again, without a wait."""
    moves = _Moves(world)
    for publication in world.publications:
        if publication.state is PublicationState.FAILED:
            moves.asked_again(publication)
    return moves.decision("publish.again")


def paths_of(world: World, declared: ExternalCatalogue) -> Mapping[str, Mapping[str, str]]:
    """Return the paths of files at storages that a catalogue knows, by file, then storage.

    Leave out copies that Pilotage made, because it removes them later.
    """
    storages = {storage.storage for storage in declared.storages}
    paths: dict[str, dict[str, str]] = defaultdict(dict)
    for replica in world.replicas:
        if replica.storage in storages and not is_copy(replica.path):
            paths[replica.file][replica.storage] = replica.place
    return paths


def _unheard(publication: Publication, world: World) -> PublicationSighting | None:
    """Return a failure for a publication if its server has ended without a report; else None."""
    if publication.server not in world.servers_gone and world.time - publication.since <= LEASE:
        return None
    error = "the server that asked its catalogue has ended"
    return PublicationSighting(publication=publication.id, attempt=publication.attempt, error=error)


def _due_publications(world: World) -> Mapping[str, list[Publication]]:
    """Return the due publications by dataset, longest waiting first."""
    by_dataset: dict[str, list[Publication]] = defaultdict(list)
    for publication in sorted(
        world.publications, key=lambda publication: (publication.wake_at, publication.id)
    ):
        if publication.state is PublicationState.WAITING and publication.wake_at <= world.time:
            by_dataset[publication.dataset].append(publication)
    return by_dataset


def _terms(world: World) -> Mapping[str, OutputTerms]:
    declared = {
        catalogue.name: catalogue.outputs for catalogue in world.federation.catalogues if catalogue.outputs
    }
    return {"": OWN_TERMS} | declared


def _is_over(publication: Publication, time: float, terms: Mapping[str, OutputTerms]) -> bool:
    of = terms.get(split_dataset(publication.dataset)[0])
    return of is None or time - publication.asked >= of.give_up_after


def _delay(publication: Publication, terms: Mapping[str, OutputTerms]) -> float:
    first = terms[split_dataset(publication.dataset)[0]].retry_delay
    return float(min(LONGEST_DELAY, first * 2 ** min(publication.attempt - 1, MOST_ATTEMPTS_COUNTED)))


class _Obstacles:
    """Reasons why publications can never succeed."""

    def __init__(self, world: World) -> None:
        self._files = {file.name: file for file in world.files}
        self._catalogues = {
            catalogue.name: catalogue for catalogue in world.federation.catalogues if catalogue.outputs
        }
        self._paths = {name: paths_of(world, catalogue) for name, catalogue in self._catalogues.items()}
        self._holders: dict[str, list[str]] = defaultdict(list)
        for replica in world.replicas:
            self._holders[replica.file].append(replica.storage)
        self._failed: dict[int, int] = defaultdict(int)
        for publication in world.publications:
            if publication.file and publication.state is PublicationState.FAILED:
                self._failed[publication.task] += 1

    def of(self, publication: Publication) -> str:
        """Return the reason, empty if there is none."""
        if is_own(publication.dataset):
            return ""
        catalogue = split_dataset(publication.dataset)[0]
        declared = self._catalogues.get(catalogue)
        if declared is None:
            return f"the federation has no catalogue {catalogue} that takes outputs now"
        if not publication.file:
            failed = self._failed[publication.task]
            return f"it is left open, for {failed} of its files are not published" if failed else ""
        if publication.file not in self._files:
            return f"{publication.file} is not in the catalogue any more"
        if not self._paths[catalogue].get(publication.file):
            holders = ", ".join(sorted(self._holders[publication.file])) or "no storage"
            storages = ", ".join(sorted({storage.storage for storage in declared.storages}))
            return f"it is at {holders}; the catalogue {catalogue} maps {storages}"
        return ""


class _Moves:
    """Moves of publications. Equal ones are combined, and each is fenced by its attempt."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._groups: dict[tuple[object, ...], tuple[Move, list[Publication]]] = {}

    def published(self, publication: Publication) -> None:
        """End a publication: its catalogue has it."""
        self._add(publication, PublicationState.PUBLISHED, "registered", {"error": ""})

    def begun(self, publications: Iterable[Publication]) -> None:
        """Begin publications: their catalogue gets the request."""
        for publication in publications:
            self._add(
                publication,
                PublicationState.PUBLISHING,
                "its catalogue is asked",
                {"server": self._world.server},
            )

    def again(self, publication: Publication, wake_at: float, error: str) -> None:
        """Postpone a publication until ``wake_at`` (s since 1970 UTC)."""
        changes: dict[str, Value] = {"wake_at": wake_at, "error": error}
        self._add(publication, PublicationState.WAITING, "could not be registered", changes, True)

    def asked_again(self, publication: Publication) -> None:
        """Retry a publication at a person's request."""
        now = self._world.time
        changes: dict[str, Value] = {"wake_at": now, "asked": now}
        self._add(publication, PublicationState.WAITING, "asked for again", changes, True)

    def failed(self, publication: Publication, error: str) -> None:
        """Give up a publication."""
        self._add(publication, PublicationState.FAILED, "not published", {"error": error})

    def decision(self, step: str) -> Decision:
        """Return all moves, in the order of their creation."""
        return Decision(
            step=step, time=self._world.time, seed=self._world.seed, changes=tuple(self._gathered())
        )

    def _gathered(self) -> Iterator[Move]:
        for first, publications in self._groups.values():
            yield Move(
                kind="publication",
                ids=tuple(publication.id for publication in publications),
                attempts=tuple(publication.attempt for publication in publications),
                source=first.source,
                target=first.target,
                cause=first.cause,
                changes=first.changes,
                next_attempt=first.next_attempt,
            )

    def _add(
        self,
        publication: Publication,
        target: PublicationState,
        cause: str,
        changes: Mapping[str, Value],
        next_attempt: bool = False,
    ) -> None:
        key = (publication.state, target, publication.dataset, *changes.items())
        first = Move(
            kind="publication",
            ids=(),
            source=publication.state,
            target=target,
            cause=cause,
            changes=changes,
            next_attempt=next_attempt,
        )
        self._groups.setdefault(key, (first, []))[1].append(publication)
