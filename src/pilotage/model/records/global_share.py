"""The global shares of a federation."""

from dataclasses import dataclass

from pilotage.model.values.identity import IdentityName
from pilotage.model.values.types import CLOSED, Name, NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalShare:
    """A share of the federation.

    Shares without parent are siblings, whatever their VO. Together they divide the federation.
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
