"""Register outputs in the datasets that their tasks name: what goes when, and what became of it."""

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
"""Datasets of one catalogue that are worked on at the same time, each by one call."""

MOST_FILES = 500
"""Files that one call registers."""

LEASE = 300.0
"""Seconds after which a server that asked is taken to have ended, where that cannot be seen."""

LONGEST_DELAY = 3600.0
"""Seconds between two attempts at most."""

OWN_TERMS = OutputTerms(scopes=("user.{name}",))
"""Those of datasets of this catalogue."""

MOST_ATTEMPTS_COUNTED = 20
"""Attempts after which the delay grows no more: the powers of two would leave all bounds."""


def observed(world: World) -> Decision:
    """Record what catalogues answered: published, tried again later, or failed.

    The wait before attempt n + 1 is the catalogue's ``retry_delay`` x 2 to the power n - 1, in s, an hour at
    most; ``give_up_after`` s after it was asked for, a publication fails. One whose server has ended is tried
    again at once, which is safe: whatever was registered before stays so.
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
    """Choose what is registered now: by catalogue, then dataset, those first that are due the longest.

    At most :data:`AT_ONCE` datasets of a catalogue at a time, :data:`MOST_FILES` files each, so that one
    which does not answer holds up its own outputs alone. What can never be registered fails by name.
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
    """Ask for what failed again, at once."""
    moves = _Moves(world)
    for one in world.publications:
        if one.state is PublicationState.FAILED:
            moves.asked_again(one)
    return moves.decision("publish.again")


def paths_of(world: World, declared: ExternalCatalogue) -> Mapping[str, Mapping[str, str]]:
    """Return where files lie at storages that a catalogue knows: paths by file, then storage.

    Copies that Pilotage made are left out, since it removes them again.
    """
    known = {one.storage for one in declared.storages}
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for replica in world.replicas:
        if replica.storage in known and not is_copy(replica.path):
            found[replica.file][replica.storage] = replica.place
    return found


def _unheard(one: Publication, world: World) -> PublicationSighting | None:
    """Tell of a publication that nobody will tell of any more."""
    if one.server not in world.servers_gone and world.time - one.since <= LEASE:
        return None
    error = "the server that asked its catalogue has ended"
    return PublicationSighting(publication=one.id, attempt=one.attempt, error=error)


def _due(world: World) -> Mapping[str, list[Publication]]:
    """The waiting publications whose time has come, by dataset; those that wait the longest first."""
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
    """Reasons why publications can never be registered, as this world has it."""

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
        """The reason, empty where there is none."""
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
    """Moves of publications, those alike together, each fenced by its attempt."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._groups: dict[tuple[object, ...], tuple[Move, list[Publication]]] = {}

    def published(self, one: Publication) -> None:
        """End a publication: its catalogue has it."""
        self._add(one, PublicationState.PUBLISHED, "registered", {"error": ""})

    def begun(self, ones: Iterable[Publication]) -> None:
        """Begin publications: their catalogue is asked."""
        for one in ones:
            self._add(
                one, PublicationState.PUBLISHING, "its catalogue is asked", {"server": self._world.server}
            )

    def again(self, one: Publication, wake_at: float, error: str) -> None:
        """Put a publication off: it is tried again at ``wake_at`` (s since 1970 UTC)."""
        changes: dict[str, Value] = {"wake_at": wake_at, "error": error}
        self._add(one, PublicationState.WAITING, "could not be registered", changes, True)

    def asked_again(self, one: Publication) -> None:
        """A person wants it tried again."""
        now = self._world.time
        changes: dict[str, Value] = {"wake_at": now, "asked": now}
        self._add(one, PublicationState.WAITING, "asked for again", changes, True)

    def failed(self, one: Publication, error: str) -> None:
        """Give a publication up."""
        self._add(one, PublicationState.FAILED, "not published", {"error": error})

    def decision(self, step: str) -> Decision:
        """All of them, in the order of their coming."""
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
