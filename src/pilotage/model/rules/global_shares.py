"""The order of global shares' turns."""

from collections.abc import Iterable, Sequence

from pilotage.model.documents.world import JobCount
from pilotage.model.records.federation import GlobalShare
from pilotage.model.records.states import JobState

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
