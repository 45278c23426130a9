"""Quotas of people, groups and VOs, and global shares: parts of the federation document."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from pilotage.model.records.spec import LiveWork
from pilotage.model.values.identity import Identity, IdentityName
from pilotage.model.values.types import CLOSED, Name, NonNegative, Number, Positive, Seconds, Whole

HolderKind = Literal["person", "group", "vo", "share"]
"""Whose limits these are; a share has a target in place of limits."""

LIMITS = ("tasks", "jobs", "files", "stored", "uploaded", "core_hours", "transferred", "target")
"""What a quota of one person, group or VO may limit, and the target of a share."""

MOST_EXCEPTIONS = 1000
"""Most people, groups, VOs and shares with values in place of the general or declared ones."""

_SUFFIXES: dict[HolderKind, str] = {"person": "user", "group": "group", "vo": "vo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaException:
    """Limits of one person, group or VO in place of the general ones. None: the general one holds.

    People may also set the target of a share so, in place of the declared one.
    """

    __pydantic_config__ = CLOSED

    kind: HolderKind
    """The kind of its holder."""
    name: IdentityName = ""
    """Name of the person, group or share; empty: a VO."""
    vo: IdentityName = ""
    """Its VO."""
    tasks: Number | None = None
    """Unfinished tasks, of a person or VO."""
    jobs: Number | None = None
    """Live jobs."""
    files: Number | None = None
    """Input files of unfinished tasks, of a person or VO."""
    stored: Number | None = None
    """MB that all tasks of a person take in the store."""
    uploaded: NonNegative | None = None
    """GB of uploaded files, of a person or VO."""
    core_hours: NonNegative | None = None
    """Core hours in a calendar month."""
    transferred: NonNegative | None = None
    """GB of inputs and outputs in a calendar month."""
    target: NonNegative | None = None
    """The target of a share, relative to its siblings' targets. No file sets it here, but in `shares`."""
    because: Annotated[str, Field(max_length=500)] = ""
    """Why."""
    actor: str = ""
    """Who set it; empty: the file of the federation."""
    since: Seconds = 0
    """When, in s since 1970 UTC."""

    @property
    def key(self) -> tuple[HolderKind, str, str]:
        """Return its holder."""
        return self.kind, self.vo, self.name

    @property
    def holder(self) -> str:
        """Return its holder in words: ``person ada of atlas``."""
        if self.kind == "vo":
            return f"VO {self.vo}"
        return f"{self.kind} {self.name}" + (f" of {self.vo}" if self.vo else "")

    @property
    def limits(self) -> dict[str, float]:
        """Return the limits that it has."""
        return {name: value for name in LIMITS if (value := getattr(self, name)) is not None}

    @property
    def is_fit(self) -> bool:
        """Return whether it has limits, each of which its holder may have."""
        if self.kind == "share":
            return self.limits.keys() == {"target"}
        return 0 < len(self.limits) == len(self.constants())

    def holds_for(self, owner: Identity) -> bool:
        """Return whether it limits an owner's work."""
        if self.vo != owner.vo:
            return False
        if self.kind == "share":
            return False
        return self.kind == "vo" or self.name == (owner.name if self.kind == "person" else owner.group)

    def constants(self) -> dict[str, Any]:
        """Return its limits, named as the general ones."""
        if self.kind == "share":
            return {}
        suffix = _SUFFIXES[self.kind]
        named = {f"{name}_by_{suffix}": value for name, value in self.limits.items()}
        return {name: value for name, value in named.items() if name in QuotaConstants.__dataclass_fields__}


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
    core_hours_by_user: NonNegative | None = None
    """Core hours that one user's attempts may use in a calendar month (UTC). Then submissions are refused,
    and what was submitted goes on. None: no limit."""
    core_hours_by_group: NonNegative | None = None
    """The same of one group of a VO."""
    core_hours_by_vo: NonNegative | None = None
    """The same of one VO."""
    transferred_by_user: NonNegative | None = None
    """GB that one user's attempts may read and write, as inputs and outputs, in a calendar month (UTC). Then
    submissions are refused, and what was submitted goes on. None: no limit."""
    transferred_by_group: NonNegative | None = None
    """The same of one group of a VO."""
    transferred_by_vo: NonNegative | None = None
    """The same of one VO."""
    exceptions: Annotated[tuple[QuotaException, ...], Field(max_length=MOST_EXCEPTIONS)] = ()
    """Limits of single people, groups and VOs. What `pilotage quotas set` says goes before the file."""

    def for_owner(self, owner: Identity) -> "QuotaConstants":
        """Return the limits of an owner's work."""
        changes: dict[str, Any] = {}
        for exception in self.exceptions:
            if exception.holds_for(owner):
                changes |= exception.constants()
        return replace(self, exceptions=(), **changes) if changes else self

    def may_throttle(self, planned: Collection[int]) -> bool:
        """Return whether a VO's unfinished tasks, with these jobs by owner, could exceed a quota of live
        jobs."""
        limits = [(exception.kind, exception.jobs) for exception in self.exceptions]
        of_people = [jobs for kind, jobs in limits if jobs is not None and kind == "person"]
        of_many = [jobs for kind, jobs in limits if jobs is not None and kind != "person"]
        most_together = min(self.jobs_by_vo, self.jobs_by_group, *of_many)
        most_of_one = min(self.jobs_by_user, *of_people) if of_people else self.jobs_by_user
        return sum(planned) > most_together or max(planned, default=0) > most_of_one

    @property
    def are_monthly(self) -> bool:
        """Return whether what attempts use in a month is limited."""
        names = (
            f"{use}_by_{holder}" for use in ("core_hours", "transferred") for holder in _SUFFIXES.values()
        )
        return any(getattr(self, name) is not None for name in names)

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

    window: Annotated[Whole, Field(ge=0, le=30)] = 0
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
