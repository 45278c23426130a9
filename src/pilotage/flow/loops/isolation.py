"""Find what a policy fails at, by asking it about parts of its world. Policies are pure: to ask is safe."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.subjects import Key, Subject
from pilotage.model.documents.world import World
from pilotage.model.values.identity import Identity

MOST_TRIALS = 100
"""Times that a failing policy is asked about parts of a world, or parts of its decision are committed."""

LONGEST_ERROR = 500
"""Characters of an error that are kept."""

POLICY = "policy"
"""The subject of a fault that lies in no record: the whole policy."""

Policy = Callable[[World], Decision]
_Block = tuple[Sequence[Key], Exception]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A subject that a policy fails at, and the error. ``among`` counts those it could not be told from."""

    subject: str
    key: Key
    error: str
    among: int = 1


@dataclass(frozen=True, slots=True)
class Isolated:
    """What a policy failed at, and what it decides without that: None where it fails all the same."""

    faults: tuple[Failing, ...]
    decision: Decision | None


def words(error: BaseException) -> str:
    """An error as one line."""
    told = " ".join(str(error).replace("\0", " ").encode(errors="replace").decode().split())
    return f"{type(error).__name__}: {told}"[:LONGEST_ERROR].rstrip(": ")


def faults_of(kind: Subject, keys: Sequence[Key], error: Exception) -> Iterator[Failing]:
    """The same error for subjects that cannot be told from each other."""
    for key in keys:
        yield Failing(subject=kind.name, key=key, error=words(error), among=len(keys))


def isolate(policy: Policy, actor: str, error: Exception, world: World, kinds: Sequence[Subject]) -> Isolated:
    """Find what a policy failed at in this world with an error, and decide about all the rest.

    The kinds are tried in their order. Where nothing of a kind goes on, the next kind may be to blame, unless
    all belongs to one person: one person's tasks are never taken for the fault of a queue. Where no kind can
    be told from the others, those of the first are to blame.
    """
    everything: tuple[Failing, ...] = ()
    for kind in kinds:
        faults = tuple(_Search(policy, world, kind).faults())
        keys = kind.keys(world)
        owners = kind.owners(world)
        if faults and (len(faults) < len(keys) or len({owners.get(key, key) for key in keys}) < 2):
            return _without(policy, actor, world, kind, faults)
        everything = everything or faults
    return Isolated(everything or (Failing(subject=POLICY, key=actor, error=words(error)),), None)


def _without(
    policy: Policy, actor: str, world: World, kind: Subject, faults: tuple[Failing, ...]
) -> Isolated:
    try:
        decision = policy(kind.without(world, {fault.key for fault in faults}))
    except Exception as error:
        return Isolated((*faults, Failing(subject=POLICY, key=actor, error=words(error))), None)
    return Isolated(faults, decision)


class Trials:
    """Times that something may still be tried."""

    def __init__(self, most: int = MOST_TRIALS) -> None:
        self._left = most

    def any_left(self) -> bool:
        """Count one more; False where none is left."""
        self._left -= 1
        return self._left >= 0


class _Search:
    """Looks for the subjects of one kind that a policy fails at, by halves.

    Blocks of several people come first, and are parted between people: so when the trials are used up, mostly
    subjects of those are left at whose subjects the policy does fail.
    """

    def __init__(self, policy: Policy, world: World, kind: Subject) -> None:
        self._policy, self._world, self._kind = policy, world, kind
        self._keys, self._owners = kind.keys(world), kind.owners(world)
        self._trials = Trials(MOST_TRIALS // 2)
        self._of_several: deque[_Block] = deque()
        self._of_one: deque[_Block] = deque()

    def faults(self) -> Iterator[Failing]:
        """Yield what it fails at; nothing where it fails without any of them."""
        if not self._keys or self._error_with(()) is not None:
            return
        self._keep(self._keys)
        while blocks := self._of_several or self._of_one:
            block, error = blocks.popleft()
            if len(block) == 1 or not self._trials.any_left():
                yield from faults_of(self._kind, block, error)
                continue
            middle = self._middle(block)
            if not (self._keep(block[:middle]) | self._keep(block[middle:])):
                # Each half alone is well: they do not go together, so one of them waits.
                yield from faults_of(self._kind, block[middle:], error)

    def _keep(self, block: Sequence[Key]) -> bool:
        """Look further into a block if the policy fails at it; tell whether it does."""
        error = self._error_with(block)
        if error is not None:
            is_of_one = self._owner(block[0]) == self._owner(block[-1])
            (self._of_one if is_of_one else self._of_several).append((block, error))
        return error is not None

    def _middle(self, block: Sequence[Key]) -> int:
        """Where a block is parted: of several people's, between two of them."""
        middle = len(block) // 2
        borders = [at for at in range(1, len(block)) if self._owner(block[at - 1]) != self._owner(block[at])]
        return min(borders, key=lambda at: abs(at - middle), default=middle)

    def _owner(self, key: Key) -> Identity | None:
        return self._owners.get(key)

    def _error_with(self, keys: Collection[Key]) -> Exception | None:
        """The error with no other subjects than these; None where the policy decides."""
        left_out = set(self._keys).difference(keys)
        try:
            self._policy(self._kind.without(self._world, left_out))
        except Exception as error:
            return error
        return None
