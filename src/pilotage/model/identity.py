"""Who somebody is: one type from the token to the query."""

from dataclasses import dataclass
from typing import Literal

Role = Literal["user", "pilot", "operator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The owner of work: what shares, private pilots and permissions are decided by."""

    name: str
    vo: str = ""
    group: str = ""
    vo_role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a bearer token stands for. A pilot's is bound to one pilot and reaches nothing else (P9)."""

    role: Role
    identity: Identity
    pilot: int | None = None
    expires: float | None = None
