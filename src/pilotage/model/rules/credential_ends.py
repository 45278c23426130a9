"""When tokens and certificates end, and when people hear of it: the rule and its days."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pilotage.model.values.durations import DAY

NOTICE_DAYS = (14, 1)
"""Days before an end at which there is a notification of it."""

SOON = NOTICE_DAYS[0] * DAY
"""Seconds before an end from which it is near. What lasts no longer than this is renewed by programs."""

CredentialKind = Literal["token", "certificate", "file"]
"""A token of the store, the certificate of a server, or a file that options of the federation name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialEnd:
    """When something ends that a person has to renew. Times in s since 1970 UTC."""

    kind: CredentialKind
    """What it is."""
    name: str
    """A token's id, a server's host and port, or a path."""
    text: str
    """How messages name it."""
    begin: float | None
    """When it was made; none: unknown."""
    end: float
    """When it ends."""
    mend: str
    """The command that renews it, or what to do."""
    effect: str
    """What happens after its end."""
    holder: str = ""
    """The person who bears a token; empty: no person does."""
    vo: str = ""
    """Their VO."""
    first_seen: float = 0.0
    """When a server first saw this end."""

    @property
    def is_lasting(self) -> bool:
        """Return whether people renew it: programs renew what lasts for a short time."""
        return self.begin is None or self.end - self.begin > SOON

    def is_near(self, now: float) -> bool:
        """Return whether it has ended, or people have to renew it soon."""
        return self.end <= now or (self.is_lasting and self.end - now < SOON)

    def is_due(self, last: float, now: float) -> bool:
        """Return whether a notification of it is due now, and was not at ``last``."""
        times = (max(self.end - days * DAY, self.first_seen) for days in NOTICE_DAYS)
        return self.is_lasting and any(last < time <= now for time in times)


def to_show(ends: Iterable[CredentialEnd], now: float) -> list[CredentialEnd]:
    """Return the ends that people care about: of what lasts, and of what has ended."""
    return [credential for credential in ends if credential.is_lasting or credential.end <= now]
