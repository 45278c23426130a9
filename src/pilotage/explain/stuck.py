"""What is stuck or set aside, in words: what such records wait for, and the command that mends it."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from pilotage.model.records.states import JobState
from pilotage.model.rules.stuck import EXPECTED, StuckGroup
from pilotage.model.values.phrases import duration, moment, plural

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


class _SetAside(Protocol):
    @property
    def step(self) -> str: ...
    @property
    def error(self) -> str: ...
    @property
    def among(self) -> int: ...
    @property
    def since(self) -> float: ...
    @property
    def times(self) -> int: ...
    @property
    def retry_at(self) -> float: ...


def of_set_aside(found: Iterable[_SetAside]) -> Iterator[str]:
    """Yield for each step that skips something: since when, why, and what ends that."""
    for one in found:
        often = "once" if one.times == 1 else f"{one.times} times"
        among = f", with {one.among - 1} others it cannot be told from" if one.among > 1 else ""
        yield (
            f"set aside by step {one.step}, which failed at it {often} since {moment(one.since)}{among}: "
            f"{one.error}; tried again at {moment(one.retry_at)}, when the federation changes, and when a "
            "server starts, as after an upgrade"
        )
