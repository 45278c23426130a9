"""Identities of people and programs: one type from the token to the query."""

from dataclasses import dataclass
from typing import Literal

from .types import DESCRIBED

Role = Literal["user", "pilot", "operator", "enrolment", "enrolled", "site"]
"""An ``enrolment`` is what a pilot's order carries: it is exchanged once for the pilot's own credential, and
``enrolled`` from then on. A ``site`` has its name, and may send
its advertisement (M2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The owner of work: what shares, private pilots and permissions are decided by."""

    __pydantic_config__ = DESCRIBED

    name: str
    """Name of the user."""
    vo: str = ""
    """Virtual organisation."""
    group: str = ""
    """Group in the VO."""
    vo_role: str = ""
    """Role in the VO."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """Rights of a bearer token. A pilot's is bound to one pilot and reaches nothing else (P9)."""

    __pydantic_config__ = DESCRIBED

    role: Role
    """What it may do."""
    identity: Identity
    """Whose it is."""
    pilot: int | None = None
    """The pilot that it is bound to."""
    expires: float | None = None
    """When it ends, in s since 1970; none: never."""
