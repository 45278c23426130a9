"""Records that a step has set aside because it fails on them, in words."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from pilotage.model.values.phrases import moment


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


def of(found: Iterable[_SetAside]) -> Iterator[str]:
    """Yield for each step that skips something: since when, why, and what ends that."""
    for one in found:
        often = "once" if one.times == 1 else f"{one.times} times"
        among = f", with {one.among - 1} others it cannot be told from" if one.among > 1 else ""
        yield (
            f"set aside by step {one.step}, which failed at it {often} since {moment(one.since)}{among}: "
            f"{one.error}; tried again at {moment(one.retry_at)}, when the federation changes, and when a "
            "server starts, as after an upgrade"
        )
