"""Grants: who may read or change another person's task or workflow, those of a group, or a dataset."""

from dataclasses import dataclass
from typing import Literal

from pilotage.model.values.types import DESCRIBED

GrantKind = Literal["task", "workflow", "dataset", "group"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkGrant:
    """Leave for a person or a group of a VO to read results, logs and explanations, or to change work too."""

    __pydantic_config__ = DESCRIBED

    kind: GrantKind
    """What may be read. A workflow means all of its tasks, a dataset the files of all its versions, a group
    all tasks and workflows that people submit in it."""
    record: str
    """Its number; of a dataset ``SCOPE:NAME``, of a group ``VO:NAME``."""
    person: str = ""
    """Name of the person who may read it; empty: the group may."""
    group: str = ""
    """The group that may read it; empty: the person may."""
    vo: str = ""
    """VO of the person or the group."""
    by: str
    """Name of the person who gave it."""
    by_vo: str = ""
    """VO of that person."""
    made: float
    """When it was given, in s since 1970."""
    manages: bool = False
    """Whether the reader may also do what its owner may, except to grant it."""
    until: float | None = None
    """When it ends, in s since 1970; none: when it is revoked."""

    @property
    def reader(self) -> str:
        """Return who may read, as people write it: ``bob``, ``group:higgs``."""
        return self.person or f"group:{self.group}"
