"""Copies that nobody wants any more go by age, use and quota; never the last replica of a file."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pilotage.model.data import Copy
from pilotage.model.decision import Begin, Decision, Forget
from pilotage.model.scopes import split_identifier
from pilotage.model.work import Replica
from pilotage.model.world import World

GIGABYTE = 1_000_000_000


def remove(world: World) -> Decision:
    """Forget copies that were not used for ``copies_kept`` s, and where a quota is passed the longest unused.

    Once in ``cleaning_period``, until there are none. A copy stays while a task reads its file, and while no
    other storage of the federation holds it: of two copies that nobody wants, one stays.
    """
    constants = world.federation.staging
    rests = world.cleaned is not None and world.time - world.cleaned < constants.cleaning_period
    if rests or not world.copies:
        return Decision(step="clean", time=world.time, seed=world.seed)
    chosen = tuple(_chosen(world))
    replicas = tuple(Replica(file=one.file, storage=one.storage, path=one.path) for one in chosen)
    # While there are some, the next pass goes on: the period begins when there are none left.
    change = (
        Forget(replicas=replicas, if_unread=True) if replicas else Begin(step="clean", last=world.cleaned)
    )
    return Decision(step="clean", time=world.time, seed=world.seed, changes=(change,))


def _chosen(world: World) -> Iterator[Copy]:
    """The copies that go, the longest unused first."""
    known = {storage.name for storage in world.federation.storages}
    usage = _Usage(world)
    gone: set[tuple[str, str]] = set()
    for copy in sorted(_unwanted(world), key=lambda copy: (copy.used, copy.file, copy.storage)):
        # Storages that left the federation hold nothing for anybody.
        left = [one for one in copy.elsewhere if one in known and (copy.file, one) not in gone]
        aged = world.time - copy.used > world.federation.staging.copies_kept
        if left and (aged or usage.exceeds(copy)):
            gone.add((copy.file, copy.storage))
            usage.take(copy)
            yield copy


def _unwanted(world: World) -> Iterable[Copy]:
    return (copy for copy in world.copies if not copy.wanted)


@dataclass(slots=True)
class _Usage:
    """Bytes of copies by storage, and by storage and scope, with what they may be."""

    world: World
    _at: Counter[str] = field(default_factory=Counter)
    _of: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for one in self.world.copies_sizes:
            self._at[one.storage] += one.size
            self._of[one.storage, one.scope] += one.size

    def exceeds(self, copy: Copy) -> bool:
        """Tell whether the storage, or the scope there, has more than its quota."""
        scope = split_identifier(copy.file)[0]
        quotas = {one.name: one.copies_quota for one in self.world.federation.storages}
        at, of = quotas.get(copy.storage), self.world.federation.staging.copies_quotas.get(scope)
        return (at is not None and self._at[copy.storage] > at * GIGABYTE) or (
            of is not None and self._of[copy.storage, scope] > of * GIGABYTE
        )

    def take(self, copy: Copy) -> None:
        """Count a copy no more."""
        self._at[copy.storage] -= copy.size
        self._of[copy.storage, split_identifier(copy.file)[0]] -= copy.size
