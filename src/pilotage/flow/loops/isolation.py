"""Find the records that make a policy fail, by running it on parts of its world.

Policies are pure, so running them is safe.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from pilotage.flow.loops.time_limit import LEAST_TIMEOUT, OutOfTime, TimeLimit
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.subjects import TASK, Key, Subject
from pilotage.model.documents.world import World
from pilotage.model.rules.work_budget import OverBudget
from pilotage.model.values.identity import Identity

MOST_TRIALS = 100
"""Most runs of a failing policy on parts of a world, or commits of parts of its decision."""

MOST_SLOW_TRIALS = 14
"""Most splits of a world for a policy that takes too long: enough to find one subject of thousands."""

LONGEST_ERROR = 500
"""Most characters kept of an error."""

MOST_OVER_BUDGET = 20
"""Most tasks over budget found in one pass. Their owners' other tasks wait for the next pass."""

POLICY = "policy"
"""The subject of a fault that no record causes: the whole policy."""

Policy = Callable[[World], Decision]
_Block = tuple[Sequence[Key], Exception]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A subject that makes a policy fail, and the error. ``among`` counts it and the subjects that it could
    not be separated from.

    ``slow`` means that it took too long, ``costly`` that it used up this or another budget.
    """

    subject: str
    key: Key
    error: str
    among: int = 1
    costly: bool = False
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Isolated:
    """The subjects that made a policy fail, and its decision without them: None if it still fails."""

    faults: tuple[Failing, ...]
    decision: Decision | None


def error_line(error: BaseException) -> str:
    """Return an error as one line. Errors made for people have no type in front."""
    text = " ".join(str(error).replace("\0", " ").encode(errors="replace").decode().split())
    if isinstance(error, OutOfTime | OverBudget):
        return text[:LONGEST_ERROR]
    return f"{type(error).__name__}: {text}"[:LONGEST_ERROR].rstrip(": ")


def faults_of(kind: Subject, keys: Sequence[Key], error: Exception) -> Iterator[Failing]:
    """Yield the same error for subjects that cannot be separated."""
    costly = isinstance(error, OutOfTime | OverBudget)
    for key in keys:
        yield Failing(
            subject=kind.name,
            key=key,
            error=error_line(error),
            among=len(keys),
            costly=costly,
            slow=isinstance(error, OutOfTime),
        )


class TimedPolicy:
    """A policy with its name and a time limit, which halves each time it is used up.

    So the search takes at most twice the first time, apart from small parts. ``plugin`` is the brokerage that
    it asks, if any.
    """

    def __init__(
        self, name: str, decide: Policy, limit: TimeLimit, plugin: str = "", seconds: float | None = None
    ) -> None:
        self.name = name
        self.plugin = plugin
        self._decide, self._limit = decide, limit
        self._seconds = limit.seconds if seconds is None else seconds

    def __call__(self, world: World) -> Decision:
        """Decide. Raises ``OutOfTime`` that names the brokerage plugin."""
        try:
            return self._limit.call(lambda: self._decide(world), self._seconds)
        except OutOfTime as error:
            if self._seconds is not None:
                self._seconds = max(self._seconds / 2, min(LEAST_TIMEOUT, self._seconds))
            raise OutOfTime(f"the brokerage {self.plugin!r} {error}" if self.plugin else str(error)) from None


def within_budgets(policy: Policy, world: World) -> tuple[Decision, tuple[Failing, ...], World]:
    """Decide about all tasks within their budgets of counted work. Return the world without the others.

    Raises the policy's other exceptions.
    """
    faults: list[Failing] = []
    rest = world
    while True:
        try:
            return policy(rest), tuple(faults), rest
        except OverBudget as over:
            if over.task not in TASK.keys(rest):
                raise
            sentence = f"{over.problem}; {over.remedy}"
            faults.append(Failing(subject=TASK.name, key=over.task, error=sentence, costly=True))
            rest = TASK.without(rest, {over.task, *_others_of(world, faults)})


def _others_of(world: World, faults: Sequence[Failing]) -> Collection[Key]:
    """Return all tasks of owners with too many tasks over budget: they wait for the next pass."""
    if len(faults) < MOST_OVER_BUDGET:
        return ()
    owners = TASK.owners(world)
    faulty_owners = {owners.get(fault.key) for fault in faults}
    return {key for key, owner in owners.items() if owner in faulty_owners}


def isolate(policy: Policy, actor: str, error: Exception, world: World, kinds: Sequence[Subject]) -> Isolated:
    """Find the records that made a policy fail with an error, and decide about the rest.

    The kinds are tried in order. If every subject of a kind fails, the next kind may be to blame, unless
    everything belongs to one person: one person's tasks must not look like a queue's fault. If no kind can be
    separated, the first kind's subjects are to blame. If the policy takes too long, each trial costs time:
    then there are fewer of them, for the first kind only.
    """
    everything: tuple[Failing, ...] = ()
    slow = isinstance(error, OutOfTime)
    for kind in kinds[:1] if slow else kinds:
        faults = tuple(_Search(policy, world, kind, MOST_SLOW_TRIALS if slow else MOST_TRIALS // 2).faults())
        keys = kind.keys(world)
        owners = kind.owners(world)
        if faults and (len(faults) < len(keys) or len({owners.get(key, key) for key in keys}) < 2):
            return _without(policy, actor, world, kind, faults)
        everything = everything or faults
    return Isolated(everything or (_whole(actor, error),), None)


def _whole(actor: str, error: Exception) -> Failing:
    """Return the failure of the whole policy, without a particular record."""
    costly = isinstance(error, OutOfTime)
    return Failing(subject=POLICY, key=actor, error=error_line(error), costly=costly)


def _without(
    policy: Policy, actor: str, world: World, kind: Subject, faults: tuple[Failing, ...]
) -> Isolated:
    try:
        rest = kind.without(world, {fault.key for fault in faults})
        decision, over, _ = within_budgets(policy, rest)
    except Exception as error:
        return Isolated((*faults, _whole(actor, error)), None)
    return Isolated((*faults, *over), decision)


class Trials:
    """The number of remaining trials."""

    def __init__(self, trials: int = MOST_TRIALS) -> None:
        self._left = trials

    def any_left(self) -> bool:
        """Use up one trial. Return False if none is left."""
        self._left -= 1
        return self._left >= 0


class _Search:
    """Finds the subjects of one kind that make a policy fail, by halving.

    Blocks of several people come first, and are split between people. So if the trials run out, the remaining
    subjects mostly belong to people with a faulty one.
    """

    def __init__(self, policy: Policy, world: World, kind: Subject, trials: int) -> None:
        self._policy, self._world, self._kind = policy, world, kind
        self._keys, self._owners = kind.keys(world), kind.owners(world)
        self._trials = Trials(trials)
        self._of_several: deque[_Block] = deque()
        self._of_one: deque[_Block] = deque()

    def faults(self) -> Iterator[Failing]:
        """Yield the failures; nothing if it fails without any of them."""
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
                # Each half works alone but not together, so one of them waits.
                yield from faults_of(self._kind, block[middle:], error)

    def _keep(self, block: Sequence[Key]) -> bool:
        """Search a block further if the policy fails on it. Return whether it does."""
        error = self._error_with(block)
        if error is not None:
            is_of_one = self._owner(block[0]) == self._owner(block[-1])
            (self._of_one if is_of_one else self._of_several).append((block, error))
        return error is not None

    def _middle(self, block: Sequence[Key]) -> int:
        """Return where to split a block: between two people if there are several."""
        middle = len(block) // 2
        borders = [at for at in range(1, len(block)) if self._owner(block[at - 1]) != self._owner(block[at])]
        return min(borders, key=lambda at: abs(at - middle), default=middle)

    def _owner(self, key: Key) -> Identity | None:
        return self._owners.get(key)

    def _error_with(self, keys: Collection[Key]) -> Exception | None:
        """Return the error with only these subjects; None if the policy decides."""
        left_out = set(self._keys).difference(keys)
        try:
            self._policy(self._kind.without(self._world, left_out))
        except Exception as error:
            return error
        return None
