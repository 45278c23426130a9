"""Free space of storages: what they told when they were asked, and what the federation declares (B18)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pilotage.model.values.types import DESCRIBED

from .federation import Federation, Storage

PERIODS = 3
"""Periods for which an answer counts: after that the number of the file counts again."""

LEAST_FREE = 200.0
"""GB of which a storage must have more free, unless ``storage_min_free`` says otherwise (B18)."""

LEAST_PART = 0.1
"""The part of all that a storage has which is enough where that is less."""

GIGABYTE = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpace:
    """The last answers of a storage that is asked for its free space (B18)."""

    __pydantic_config__ = DESCRIBED

    storage: str
    """The storage."""
    url: str
    """Its URL when it was asked: an answer says nothing of another place."""
    asked: float
    """When it was asked last, in s since 1970."""
    told: float | None = None
    """When it last told its free space, in s since 1970; none: never."""
    free: float | None = None
    """GB that were free then; none: it never told."""
    total: float | None = None
    """GB that it has in all; none: it does not say."""
    problem: str = ""
    """Why it did not tell when it was asked last; empty: it told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSpace:
    """The free space of a storage that counts now: measured, or declared by the federation.

    ``gigabytes`` is None where neither is known. ``told`` is when it was measured, in s since 1970; None: it
    is declared. ``total`` is what the storage has in all, where it tells that. ``problem`` says why there is
    no measurement.
    """

    gigabytes: float | None
    told: float | None = None
    total: float | None = None
    problem: str = ""

    @property
    def text(self) -> str:
        """The number and where it comes from, in words."""
        if self.told is not None:
            return f"{_short(self.gigabytes)} GB free, measured {moment(self.told)}"
        why = f"; not measured: {self.problem}" if self.problem else ""
        if self.gigabytes is None:
            return f"free space neither measured nor declared{why}"
        return f"{_short(self.gigabytes)} GB free, declared{why}"


def free_spaces(federation: Federation, spaces: Iterable[StorageSpace], time: float) -> dict[str, FreeSpace]:
    """Return the free space of each storage that counts at a time, in s since 1970, by name.

    An answer counts for :data:`PERIODS` times the period at which it is asked for. Then, and where the
    storage has another URL now, the federation's number counts.
    """
    known = {(one.storage, one.url): one for one in spaces}
    period = federation.brokerage.storage_space_period
    return {
        one.name: _free_space(one, known.get((one.name, one.url)), time, period)
        for one in federation.storages
    }


def _free_space(storage: Storage, found: StorageSpace | None, time: float, period: float) -> FreeSpace:
    if found is None:
        return FreeSpace(gigabytes=storage.free)
    if found.told is not None and time - found.told < PERIODS * period:
        return FreeSpace(gigabytes=found.free, told=found.told, total=found.total, problem=found.problem)
    problem = found.problem
    if found.told is not None:
        problem = f"its last answer is of {moment(found.told)}" + (
            f"; since then: {problem}" if problem else ""
        )
    return FreeSpace(gigabytes=storage.free, problem=problem)


def moment(time: float) -> str:
    """A time in s since 1970 as date and time, UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _short(gigabytes: float | None) -> str:
    return f"{gigabytes or 0:.0f}" if (gigabytes or 0) >= 1000 else f"{gigabytes or 0:.3g}"
