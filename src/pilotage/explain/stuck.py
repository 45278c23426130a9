"""What is stuck, in words: what such records wait for, and the command that looks further or mends it."""

from pilotage.model.records.states import JobState
from pilotage.model.rules.stuck import EXPECTED, StuckGroup
from pilotage.model.values.phrases import duration, plural

_UNPLACED = (JobState.THROTTLED, JobState.PENDING, JobState.DEFINED)
"""Jobs that are at no queue yet: they have a share alone."""


def what_of(kind: str, state: str, place: str, count: int) -> str:
    """Return what is stuck: ``12 jobs activated at north-short``, ``loop broker fails on 2 servers``."""
    if kind == "loop":
        return f"loop {place} fails on {plural(count, 'server')}" if count else f"no server has loop {place}"
    where = "in share" if kind == "task" or state in _UNPLACED else "at"
    return f"{plural(count, kind)} {state}" + (f" {where} {place}" if place else "")


def reason_of(group: StuckGroup, found: str) -> str:
    """Return why a group is stuck: the cause ``found``, else its last error, else what it waits for."""
    return found or (group.error.partition("\n")[0]) or EXPECTED[group.kind, group.state].lack


def verb_of(group: StuckGroup, task: int = 0) -> str:
    """Return the command that mends what is stuck, or shows more. ``task`` is that of its oldest job."""
    return EXPECTED[group.kind, group.state].command.format(id=group.oldest, task=task, place=group.place)


def usual_of(group: StuckGroup) -> str:
    """Return what counts as usual: ``usually within 4 min``, or the limit where the past tells nothing."""
    if group.usual is None:
        return f"expected within {duration(group.limit)}"
    return f"usually within {duration(group.usual)}"
