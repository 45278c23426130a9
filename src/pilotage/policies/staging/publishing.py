"""Register outputs in the datasets that their tasks name: when each goes, and the result."""

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
"""Seconds after which the asking server counts as ended, if nobody can tell."""

LONGEST_DELAY = 3600.0
"""Longest delay between two attempts in s."""

OWN_TERMS = OutputTerms(scopes=("user.{name}",))
"""The terms of datasets in this catalogue."""

MOST_ATTEMPTS_COUNTED = 20
"""Attempts after which the delay stays constant, because powers of two would overflow."""


def observed(world: World) -> Decision:
    """Record catalogues' answers: published, to be retried, or failed.

    The wait before attempt n + 1 is the catalogue's ``retry_delay`` x 2 to the power n - 1, in s, at most an
    hour. A publication fails ``give_up_after`` s after its request. If its server has ended, it is retried at
    once. That is safe, because everything registered before stays.
    """
    told = {(one.publication, one.attempt): one for one in world.published}
    terms = _terms(world)
    moves = _Moves(world)
    for one in world.publications:
        if one.state is not PublicationState.PUBLISHING:
            continue
        sighting = told.get((one.id, one.attempt)) or _unheard(one, world)
        if sighting is None:
            continue
        if not sighting.error:
            moves.published(one)
        elif sighting.refused or _is_over(one, world.time, terms):
            moves.failed(one, sighting.error)
        else:
            gone = one.server in world.servers_gone
            moves.again(one, world.time + (0.0 if gone else _delay(one, terms)), sighting.error)
    return moves.decision("publish.observed")


def begin(world: World) -> Decision:
    """Choose what to register now: by catalogue, then dataset, longest due first.

    Take at most ``AT_ONCE`` datasets of a catalogue at a time, and ``MOST_FILES`` files of each, so
    that a dataset without an answer delays only its own outputs. A publication that can never succeed fails
    with its name.
    """
    moves = _Moves(world)
    busy: dict[str, set[str]] = defaultdict(set)
    for one in world.publications:
        if one.state is PublicationState.PUBLISHING:
            busy[split_dataset(one.dataset)[0]].add(one.dataset)
    obstacles = _Obstacles(world)
    for dataset, due in _due(world).items():
        sound: list[Publication] = []
        for one in due:
            if error := obstacles.of(one):
                moves.failed(one, error)
            else:
                sound.append(one)
        there = busy[split_dataset(dataset)[0]]
        if sound and dataset not in there and len(there) < AT_ONCE:
            there.add(dataset)
            moves.begun(sound[:MOST_FILES])
    return moves.decision("publish.begin")


def again(world: World) -> Decision:
    """Request failed publications again, at once."""
    moves = _Moves(world)
    for one in world.publications:
        if one.state is PublicationState.FAILED:
            moves.asked_again(one)
    return moves.decision("publish.again")


def paths_of(world: World, declared: ExternalCatalogue) -> Mapping[str, Mapping[str, str]]:
    """Return where files lie at storages that a catalogue knows: paths by file, then storage.

    Leave out copies that Pilotage made, because it removes them later.
    """
    known = {one.storage for one in declared.storages}
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for replica in world.replicas:
        if replica.storage in known and not is_copy(replica.path):
            found[replica.file][replica.storage] = replica.place
    return found


def _unheard(one: Publication, world: World) -> PublicationSighting | None:
    """Return a report on a publication that nobody else will report on."""
    if one.server not in world.servers_gone and world.time - one.since <= LEASE:
        return None
    error = "the server that asked its catalogue has ended"
    return PublicationSighting(publication=one.id, attempt=one.attempt, error=error)


def _due(world: World) -> Mapping[str, list[Publication]]:
    """Return the due publications by dataset, longest waiting first."""
    found: dict[str, list[Publication]] = defaultdict(list)
    for one in sorted(world.publications, key=lambda one: (one.wake_at, one.id)):
        if one.state is PublicationState.WAITING and one.wake_at <= world.time:
            found[one.dataset].append(one)
    return found


def _terms(world: World) -> Mapping[str, OutputTerms]:
    declared = {one.name: one.outputs for one in world.federation.catalogues if one.outputs}
    return {"": OWN_TERMS} | declared


def _is_over(one: Publication, time: float, terms: Mapping[str, OutputTerms]) -> bool:
    of = terms.get(split_dataset(one.dataset)[0])
    return of is None or time - one.asked >= of.give_up_after


def _delay(one: Publication, terms: Mapping[str, OutputTerms]) -> float:
    first = terms[split_dataset(one.dataset)[0]].retry_delay
    return float(min(LONGEST_DELAY, first * 2 ** min(one.attempt - 1, MOST_ATTEMPTS_COUNTED)))


class _Obstacles:
    """Reasons why publications can never succeed, in this world."""

    def __init__(self, world: World) -> None:
        self._files = {file.name: file for file in world.files}
        self._catalogues = {one.name: one for one in world.federation.catalogues if one.outputs}
        self._paths = {name: paths_of(world, one) for name, one in self._catalogues.items()}
        self._held: dict[str, list[str]] = defaultdict(list)
        for replica in world.replicas:
            self._held[replica.file].append(replica.storage)
        self._failed: dict[int, int] = defaultdict(int)
        for one in world.publications:
            if one.file and one.state is PublicationState.FAILED:
                self._failed[one.task] += 1

    def of(self, one: Publication) -> str:
        """Return the reason, empty if there is none."""
        if is_own(one.dataset):
            return ""
        catalogue = split_dataset(one.dataset)[0]
        declared = self._catalogues.get(catalogue)
        if declared is None:
            return f"the federation has no catalogue {catalogue} any more that takes outputs"
        if not one.file:
            failed = self._failed[one.task]
            return f"it is left open, for {failed} of its files are not published" if failed else ""
        if one.file not in self._files:
            return f"{one.file} is not in the catalogue any more"
        if not self._paths[catalogue].get(one.file):
            held = ", ".join(sorted(self._held[one.file])) or "no storage"
            known = ", ".join(sorted({storage.storage for storage in declared.storages}))
            return f"it is at {held}; the catalogue {catalogue} maps {known}"
        return ""


class _Moves:
    """Moves of publications. Equal ones are combined, and each is fenced by its attempt."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._groups: dict[tuple[object, ...], tuple[Move, list[Publication]]] = {}

    def published(self, one: Publication) -> None:
        """End a publication: its catalogue has it."""
        self._add(one, PublicationState.PUBLISHED, "registered", {"error": ""})

    def begun(self, ones: Iterable[Publication]) -> None:
        """Begin publications: their catalogue gets the request."""
        for one in ones:
            self._add(
                one, PublicationState.PUBLISHING, "its catalogue is asked", {"server": self._world.server}
            )

    def again(self, one: Publication, wake_at: float, error: str) -> None:
        """Postpone a publication until ``wake_at`` (s since 1970 UTC)."""
        changes: dict[str, Value] = {"wake_at": wake_at, "error": error}
        self._add(one, PublicationState.WAITING, "could not be registered", changes, True)

    def asked_again(self, one: Publication) -> None:
        """Retry a publication at a person's request."""
        now = self._world.time
        changes: dict[str, Value] = {"wake_at": now, "asked": now}
        self._add(one, PublicationState.WAITING, "asked for again", changes, True)

    def failed(self, one: Publication, error: str) -> None:
        """Give up a publication."""
        self._add(one, PublicationState.FAILED, "not published", {"error": error})

    def decision(self, step: str) -> Decision:
        """Return all moves, in the order of their creation."""
        return Decision(
            step=step, time=self._world.time, seed=self._world.seed, changes=tuple(self._gathered())
        )

    def _gathered(self) -> Iterator[Move]:
        for first, ones in self._groups.values():
            yield Move(
                kind="publication",
                ids=tuple(one.id for one in ones),
                attempts=tuple(one.attempt for one in ones),
                source=first.source,
                target=first.target,
                cause=first.cause,
                changes=first.changes,
                next_attempt=first.next_attempt,
            )

    def _add(
        self,
        one: Publication,
        target: PublicationState,
        cause: str,
        changes: Mapping[str, Value],
        next_attempt: bool = False,
    ) -> None:
        key = (one.state, target, one.dataset, *changes.items())
        first = Move(
            kind="publication",
            ids=(),
            source=one.state,
            target=target,
            cause=cause,
            changes=changes,
            next_attempt=next_attempt,
        )
        self._groups.setdefault(key, (first, []))[1].append(one)
