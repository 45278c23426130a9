"""Free space of storages: their own reports, and the federation's declarations (B18)."""

from collections.abc import Iterable
from dataclasses import dataclass

from pilotage.model.records.federation import Federation, Storage
from pilotage.model.values.phrases import moment
from pilotage.model.values.types import DESCRIBED

PERIODS = 3
"""Periods for which a report counts. After that, the declared number counts again."""

LEAST_FREE = 200.0
"""GB that must be free at a storage without a ``storage_min_free`` (B18)."""

GIGABYTE = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpace:
    """The last reports of a storage about its free space (B18)."""

    __pydantic_config__ = DESCRIBED

    storage: str
    """The storage."""
    url: str
    """Its URL when it was asked: a report counts for this URL alone."""
    asked: float
    """When it was last asked, in s since 1970."""
    told: float | None = None
    """When it last reported its free space, in s since 1970; none: never."""
    free: float | None = None
    """Free GB at that time; none: it never reported any."""
    total: float | None = None
    """Total GB; none: not reported."""
    problem: str = ""
    """Why it did not answer the last question; empty: it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSpace:
    """The current free space of a storage: measured, or declared by the federation.

    ``gigabytes`` is None if both are unknown. ``measured_at`` is in s since 1970; None means declared.
    ``total`` is the storage's total size, if it reports it. ``problem`` is the reason why there is no
    measurement.
    """

    gigabytes: float | None
    measured_at: float | None = None
    total: float | None = None
    problem: str = ""

    @property
    def text(self) -> str:
        """Return the number and its origin, in words."""
        if self.measured_at is not None:
            return f"{_short(self.gigabytes)} GB free, measured {moment(self.measured_at)}"
        problem = f"; not measured: {self.problem}" if self.problem else ""
        if self.gigabytes is None:
            return f"free space neither measured nor declared{problem}"
        return f"{_short(self.gigabytes)} GB free, declared{problem}"


def free_spaces(federation: Federation, spaces: Iterable[StorageSpace], time: float) -> dict[str, FreeSpace]:
    """Return each storage's free space at a time in s since 1970, by name.

    A report counts for ``PERIODS`` times the period between questions. After that, or if the storage has
    another URL now, the federation's number counts.
    """
    latest = {(space.storage, space.url): space for space in spaces}
    period = federation.brokerage.storage_space_period
    return {
        storage.name: _free_space(storage, latest.get((storage.name, storage.url)), time, period)
        for storage in federation.storages
    }


def _free_space(storage: Storage, space: StorageSpace | None, time: float, period: float) -> FreeSpace:
    if space is None:
        return FreeSpace(gigabytes=storage.free)
    if space.told is not None and time - space.told < PERIODS * period:
        return FreeSpace(
            gigabytes=space.free, measured_at=space.told, total=space.total, problem=space.problem
        )
    problem = space.problem
    if space.told is not None:
        problem = f"its last answer is of {moment(space.told)}" + (
            f"; since then: {problem}" if problem else ""
        )
    return FreeSpace(gigabytes=storage.free, problem=problem)


def _short(gigabytes: float | None) -> str:
    return f"{gigabytes or 0:.0f}" if (gigabytes or 0) >= 1000 else f"{gigabytes or 0:.3g}"
