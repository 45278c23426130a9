"""Restrictions of sites, queues and storages by operators: apart from the federation's file."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from pilotage.model.values.phrases import moment
from pilotage.model.values.types import CLOSED

RestrictedKind = Literal["site", "queue", "storage"]
RestrictionMode = Literal["drain", "close"]
_DONE = {"drain": "drained", "close": "closed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """A site, queue or storage that an operator drains or has closed. Times in s since 1970 UTC.

    A drained queue starts nothing new, and its waiting jobs go elsewhere immediately. A closed queue starts
    nothing either, but its jobs wait there. A drained storage takes no new files; a closed one gives none
    either. A drained site drains its queues. A closed site closes its queues and its storages.
    """

    __pydantic_config__ = CLOSED

    kind: RestrictedKind
    """What is restricted."""
    name: Annotated[str, Field(max_length=200)]
    """Its name in the federation."""
    mode: RestrictionMode
    """How."""
    because: Annotated[str, Field(min_length=1, max_length=500)]
    """The operator's reason."""
    actor: str
    """Who restricted it."""
    since: float
    """Since when."""
    until: float | None = None
    """When it ends by itself; none: when an operator opens it."""

    @property
    def text(self) -> str:
        """Return it in words: ``drained by operator:eva until 2026-11-26 18:00:00 UTC: new disks``."""
        end = "" if self.until is None else f" until {moment(self.until)}"
        return f"{_DONE[self.mode]} by {self.actor}{end}: {self.because}"
