"""The audit: who did what, by which token and from where. A record is never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotage.model.values.types import DESCRIBED

AuditValue = str | int | float | bool | None
AuditDetails = Mapping[str, AuditValue]
"""A few values by name."""

LONGEST_TEXT = 200
"""Most characters of a text of a record."""

LONGEST_WHY = 500
"""Most characters of a reason."""

MOST_DETAILS = 20
"""Most values before or after a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAuditRecord:
    """What a person or program did, without the number of its record."""

    __pydantic_config__ = DESCRIBED

    time: float
    """When, in s since 1970 UTC."""
    verb: str
    """What was done, such as `cancel`."""
    record: str = ""
    """To what, such as `task 12`."""
    role: str = ""
    """The role of the token; empty: a command on the server's machine, or an unknown person."""
    person: str = ""
    """Who."""
    vo: str = ""
    """Their virtual organisation."""
    token: str = ""
    """The token: the beginning of its hash, as the list of tokens names it."""
    address: str = ""
    """The address of the client; empty: the server's machine itself."""
    owner: str = ""
    """Whose record it was."""
    owner_vo: str = ""
    """The virtual organisation of its owner."""
    before: AuditDetails = field(default_factory=dict)
    """What there was before."""
    after: AuditDetails = field(default_factory=dict)
    """What was asked for, and what came of it."""
    why: str = ""
    """The reason that the person gave, or why a sign-in was refused."""
    times: int = 1
    """How often: refused sign-ins of an address are counted."""
    server: str = ""
    """The server process that served it; empty: a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord(NewAuditRecord):
    """A record of the audit with its number."""

    id: int
    """Its number. Later records have larger ones."""
