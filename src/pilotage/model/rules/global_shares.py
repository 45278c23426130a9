"""The order in which global shares have their turn."""

from collections.abc import Iterable, Sequence

from pilotage.model.documents.world import JobCount
from pilotage.model.records.federation import GlobalShare
from pilotage.model.records.states import JobState

ShareStanding = tuple[float, float, str]


def order(shares: Sequence[GlobalShare], counts: Iterable[JobCount]) -> dict[str, int]:
    """The place of each share, 0 first: the one that is furthest below its target.

    A share's use is the number of RUNNING jobs, whatever their cores, in it and in all shares below it, at
    all queues. Going down from the top, siblings (shares of one parent; those without parent, of whatever
    VO) are compared by use divided by target, which orders them as the shortfall against their targets'
    fraction of what the parent runs: the smallest first. A share of target 0 comes after all others; equal
    ones go by the larger target, then by name. A share comes right before those below it, and all of these
    before its next sibling. Jobs placed in the cycle do not count: they do not run yet.

    Raises ValueError where the parents run in a circle, which no federation that was checked has.
    """
    known = {share.name: share for share in shares}
    paths = {name: path(name, known) for name in known}
    use = dict.fromkeys(known, 0)
    for row in counts:
        if row.state is JobState.RUNNING:
            for name in paths.get(row.share, ()):
                use[name] += row.jobs
    standings = {share.name: standing(share, use[share.name]) for share in shares}
    # The path of a share begins as its parent's, which sorts it right behind: prefixes come first.
    ordered = sorted(known, key=lambda name: [standings[above] for above in paths[name]])
    return {name: place for place, name in enumerate(ordered)}


def path(name: str, known: dict[str, GlobalShare]) -> tuple[str, ...]:
    """The path from the top to a share; a parent that does not exist is left out."""
    path = [name]
    while (name := known[name].parent) in known:
        if name in path:
            raise ValueError(f"the parents of share {path[0]!r} run in a circle at {name!r}")
        path.append(name)
    return tuple(reversed(path))


def standing(share: GlobalShare, use: int) -> ShareStanding:
    """The measure by which a share is compared with its siblings, the smallest first."""
    if share.target == 0:
        return (float("inf"), float(use), share.name)
    return (use / share.target, -share.target, share.name)
