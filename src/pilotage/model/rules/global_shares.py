"""The order of global shares' turns."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pilotage.model.documents.world import JobCount
from pilotage.model.records.federation import GlobalShare
from pilotage.model.records.states import JobState
from pilotage.model.values.durations import DAY

LEAST_TARGET = 1 / 8
"""What a share keeps of its target, however much it used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedTarget:
    """The target of a share that follows its use."""

    used: float
    """Its part of its siblings' use, from 0 to 1."""
    target: float
    """Its target in force."""


ShareStanding = tuple[float, float, str]


def order(shares: Sequence[GlobalShare], counts: Iterable[JobCount]) -> dict[str, int]:
    """Return the rank of each share, 0 first: the one furthest below its target.

    A share's use is the number of RUNNING jobs in it and in all shares below it, at all queues. Their cores
    do not count. From the top down, siblings (shares with one parent, or those without parent in any VO) are
    compared by use divided by target, smallest first. This gives the same order as the shortfall against
    their targets' fraction of what the parent runs. A share with target 0 comes after all others. Equal ones
    sort by the larger target, then by name. A share comes right before those below it, and all of these
    before its next sibling. Jobs placed in this cycle do not count, because they do not run yet.

    Raises ValueError for a circle of parents, which no checked federation has.
    """
    by_name = {share.name: share for share in shares}
    paths = {name: path(name, by_name) for name in by_name}
    use = dict.fromkeys(by_name, 0)
    for row in counts:
        if row.state is JobState.RUNNING:
            for name in paths.get(row.share, ()):
                use[name] += row.jobs
    standings = {share.name: standing(share, use[share.name]) for share in shares}
    # A share's path starts with its parent's. Prefixes sort first, so it comes right after its parent.
    ordered = sorted(by_name, key=lambda name: [standings[above] for above in paths[name]])
    return {name: place for place, name in enumerate(ordered)}


def mean_use(spans: Iterable[tuple[float, str, float]], now: float, half_life: float) -> dict[str, float]:
    """Return the mean number of running jobs of each share, in which older spans count less.

    Spans are times in s since 1970, shares, and running jobs. A span counts half after each ``half_life``, in
    days. Times in which nothing ran have no spans, and count for no share.
    """
    use: defaultdict[str, float] = defaultdict(float)
    weights: dict[float, float] = {}
    for time, share, running in spans:
        weight = weights.setdefault(time, 0.5 ** (max(now - time, 0) / (half_life * DAY)))
        use[share] += weight * running
    whole = sum(weights.values()) or 1.0
    return {share: running / whole for share, running in use.items()}


def following(shares: Sequence[GlobalShare], use: Mapping[str, float]) -> dict[str, FollowedTarget]:
    """Return the targets that follow use, by share: ``target × 2^(1 - U / S)``, as Slurm's fair-share factor.

    U is a share's part of its siblings' use, with all shares below it. S is its part of their targets. So a
    share that used its part keeps its target, one that used nothing has twice as much, and one that used
    twice its part has half. The target is at least an eighth. Without any use of siblings they keep theirs.
    """
    by_name = {share.name: share for share in shares}
    paths = {name: path(name, by_name) for name in by_name}
    used = dict.fromkeys(by_name, 0.0)
    for name, running in use.items():
        for above in paths.get(name, ()):
            used[above] += running
    siblings: defaultdict[str, list[GlobalShare]] = defaultdict(list)
    for share in shares:
        siblings["".join(paths[share.name][-2:-1])].append(share)
    targets: dict[str, FollowedTarget] = {}
    for group in siblings.values():
        whole, target = sum(used[share.name] for share in group), sum(share.target for share in group)
        for share in group:
            part = used[share.name] / whole if whole else 0.0
            excess = part * target / share.target if whole and share.target else 1.0
            followed = share.target * max(2.0 ** (1 - excess), LEAST_TARGET)
            # Three digits: targets do not change for ever.
            targets[share.name] = FollowedTarget(used=part, target=float(f"{followed:.3g}"))
    return targets


def path(name: str, shares: dict[str, GlobalShare]) -> tuple[str, ...]:
    """Return the path from the top to a share, without parents that do not exist."""
    path = [name]
    while (name := shares[name].parent) in shares:
        if name in path:
            raise ValueError(f"the parents of share {path[0]!r} run in a circle at {name!r}")
        path.append(name)
    return tuple(reversed(path))


def standing(share: GlobalShare, use: int) -> ShareStanding:
    """Return the value for comparing a share with its siblings, smallest first."""
    if share.target == 0:
        return (float("inf"), float(use), share.name)
    return (use / share.target, -share.target, share.name)
