"""Quotas of people, groups and VOs, and global shares: parts of the federation document."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from pilotage.model.records.spec import LiveWork
from pilotage.model.values.identity import IdentityName
from pilotage.model.values.types import CLOSED, Name, NonNegative, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConstants:
    """Limits on unfinished work. Jobs beyond a limit on live jobs are throttled; other excess is refused."""

    __pydantic_config__ = CLOSED

    tasks_by_user: Positive = 10_000
    """Tasks of one user of a VO."""
    jobs_by_user: Positive = 2_000_000
    """Live jobs of one user of a VO. Further jobs are throttled until others end."""
    jobs_by_group: Positive = 20_000_000
    """Live jobs of one group of a VO. Further jobs are throttled until others end."""
    most_jobs_by_user: Positive = 10_000_000
    """Jobs of a user's tasks, including throttled and future ones. Further submissions are refused."""
    files_by_user: Positive = 2_000_000
    """Input files of these tasks, counted per task."""
    registered_by_user: Positive = 5_000_000
    """Files that one user registered, and members of versions of datasets that they made, in all."""
    stored_by_user: Positive = 1000
    """MB that all tasks of one user of a VO take in the store, with their parameters, until they are
    archived."""
    uploaded_by_user: NonNegative = 100
    """GB of files that one user uploaded and has not forgotten. 0: only operators upload."""
    uploaded_by_vo: NonNegative = 10_000
    """GB of files in the scopes of a VO and of its people that were uploaded and are not forgotten."""
    tasks_by_vo: Positive = 100_000
    """Tasks of one VO."""
    jobs_by_vo: Positive = 20_000_000
    """Live jobs of one VO. Further jobs are throttled until others end."""
    most_jobs_by_vo: Positive = 100_000_000
    """Jobs of a VO's tasks, including throttled and future ones. Further submissions are refused."""
    files_by_vo: Positive = 20_000_000
    """Input files of these tasks, counted per task."""

    def may_throttle(self, planned: Collection[int]) -> bool:
        """Return whether a VO's unfinished tasks, with these jobs by owner, could exceed a quota of live
        jobs."""
        most_together = min(self.jobs_by_vo, self.jobs_by_group)
        return sum(planned) > most_together or max(planned, default=0) > self.jobs_by_user

    @property
    def of_user(self) -> LiveWork:
        """Return the most work of one user."""
        return LiveWork(tasks=self.tasks_by_user, jobs=self.most_jobs_by_user, files=self.files_by_user)

    @property
    def of_vo(self) -> LiveWork:
        """Return the most work of one VO."""
        return LiveWork(tasks=self.tasks_by_vo, jobs=self.most_jobs_by_vo, files=self.files_by_vo)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUseConstants:
    """Whether the targets of global shares follow what the shares used in the last days (P13)."""

    __pydantic_config__ = CLOSED

    window: Annotated[float, Field(ge=0, le=30, allow_inf_nan=False)] = 0
    """Days that count, at most 30. 0: only what runs now counts."""
    half_life: Positive = 7
    """Days after which use counts half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalShare:
    """A share of the federation.

    Shares without parent are siblings, also across VOs. Together they divide the federation.
    """

    __pydantic_config__ = CLOSED

    name: Name
    """Its name in tasks."""
    vo: IdentityName = ""
    """The VO whose tasks may use it; empty: all."""
    parent: str = ""
    """The share that contains it."""
    target: NonNegative = 1
    """Its part of its parent's share, relative to its siblings' targets."""
