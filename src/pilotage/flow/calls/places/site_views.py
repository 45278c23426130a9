"""Sites, and the queues that match a task, as people see them.

Separate from the code that makes them, which needs numpy: a server loads that only when needed.
"""

from dataclasses import dataclass

from pilotage.model.documents.decision import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteState:
    """A site: the time of its advertisement (s since 1970), its counts and limits, and why it matches
    nothing.

    ``jobs`` and ``slots`` are our own there now. The current counts include other people's. ``restriction``
    names the person who drains or has closed it, and the reason.
    """

    site: str
    source: str
    advertised: float | None
    current_jobs: int | None
    current_submitting_jobs: int | None
    matched: int | None
    max_jobs: int | None
    max_submitting_jobs: int | None
    max_pending_jobs: int | None
    jobs: int
    slots: int
    problem: str
    counts_everybody: bool | None = None
    restriction: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTrue:
    """A false part of either side's Requirements: the side, its need and the actual value."""

    rule: str
    name: str
    need: Value
    have: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMatch:
    """A queue and a task's jobs: the Rank if they match, else the parts that are not true."""

    site: str
    queue: str
    rank: float | None
    refusals: tuple[NotTrue, ...]
