"""Sites, and a task's matches with their queues, as people are told of them.

Apart from what makes them, which needs numpy: a server loads that when it is needed.
"""

from dataclasses import dataclass

from pilotage.model.documents.decision import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteState:
    """A site: when it advertised (s since 1970), its counts and limits, and why it matches nothing.

    ``jobs`` and ``slots`` are our own there now; the current counts have others' as well.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTrue:
    """A part of either side's Requirements that is not true: whose, what it needs and what there is."""

    rule: str
    name: str
    need: Value
    have: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMatch:
    """A queue and a task's jobs: the Rank where they match, else the parts that are not true."""

    site: str
    queue: str
    rank: float | None
    refusals: tuple[NotTrue, ...]
